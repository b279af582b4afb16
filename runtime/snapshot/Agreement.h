// What a run must share with the snapshot that it goes on from: the tensors always. Of the rest, numbers may be others
// and are told; what makes it another model, other data or another optimizer is taken over where that is asked for.
//
//   tensors by path, shape and type          must agree; --evaluate-from asks for nothing else
//   model: numbers in it                     told
//   model: operations and what they read     --accept model
//   data: path, numbers, transforms, batch   told
//   data: source, inputs, training samples   --accept data
//   optimizer: rates, decay, clip, …         told
//   optimizer: kind, what it keeps           --accept optimizer: what the snapshot has not starts at zero
//   seed                                     told
#pragma once

#include "runtime/program/Program.h"
#include "runtime/snapshot/Snapshot.h"

#include <string>
#include <vector>

namespace echelon::runtime {

/// One thing in which a run differs from its snapshot.
struct Change {
  std::string category;               // model, data, optimizer or seed
  std::vector<std::string> then, now; // lines
  std::string text;                   // all of it in one line; empty where `then` and `now` say it
  bool isAnother = false;             // takes --accept
};

/// What is wrong with the snapshot's parameters and states, a line each; empty: they are the program's. A run that goes
/// on can start averages anew; an evaluation, which reads them, asks for them, too.
std::string tensorsThatDiffer(const Program &program, const Snapshot &snapshot, bool withAverages = false);

/// All but the tensors. `program` knows the number of its samples.
std::vector<Change> changesSince(const Snapshot &snapshot, const Program &program);

/// "    snapshot: …\n    now:      …\n", of many lines the first.
std::string linesOf(const Change &change);

/// Takes the place of the run that wrote the snapshot: the course of samples and moments, and which tensors of the
/// optimizer start at zero.
void takeOver(Program &program, Snapshot &snapshot);

} // namespace echelon::runtime
