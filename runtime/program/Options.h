// The command line of a generated program.
#pragma once

#include "runtime/program/Program.h"

#include <functional>
#include <optional>
#include <set>
#include <string>
#include <vector>

namespace echelon::runtime {

struct Options {
  int64_t steps = 0; // stop after this step; 0: where the spec says
  bool resume = false;
  std::set<std::string> accept; // of "model", "data", "optimizer": may be another than the snapshot's
  std::string log;              // file of JSON lines
  std::string trace;            // file of what happened when, of a program with probes
  std::string out;              // relative checkpoint directories start here; empty: at the spec's folder
  std::string replay;           // log of a run under a sync policy, whose order this one takes
  std::string folder;           // relative data paths start here
  std::string dump;             // folder for start values, batches and masks
  bool dumpState = false;       // and stored tensors after each step
  std::string evaluateFrom;     // evaluate this snapshot instead of training
  std::string transport = "shm";
  std::string store;                     // HOST:PORT where the ranks of tcp meet
  std::optional<double> deadlineSeconds; // else 10, or 60 where the program takes turns
  int threads = 1;
  bool help = false, version = false, plan = false;
};

struct OptionRow {
  const char *name;
  const char *argument; // nullptr: it takes none
  const char *help;
  std::function<std::string(Options &, const char *)> set; // returns what is wrong with the value, or an empty string
};

/// All options. `echelon run` and `echelon evaluate` hand some on: what they are and take stands here alone.
const std::vector<OptionRow> &optionRows();

/// The one of that name; null: there is none.
const OptionRow *optionRow(const std::string &name);

/// What signals do, for the text of --help.
inline constexpr const char *kSignalsHelp = "Ctrl-C finishes the step, saves where there is a checkpoint clause, and "
                                            "ends; a second one ends at once.";

/// Reads argv into `options`; returns what is wrong with it, or an empty string.
std::string parseOptions(const Program &program, int argc, char **argv, Options &options);

/// The text of --help.
std::string helpText(const Program &program, const std::string &executable);

} // namespace echelon::runtime
