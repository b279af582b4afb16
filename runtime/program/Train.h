// The life of one rank: start values or a snapshot, steps, evaluations, snapshots.
#pragma once

#include "runtime/data/DataSource.h"
#include "runtime/program/Options.h"
#include "runtime/program/Rank.h"
#include "runtime/snapshot/Agreement.h"
#include "runtime/snapshot/DirectoryClaim.h"
#include "runtime/snapshot/Snapshot.h"

#include <memory>
#include <string>
#include <vector>

namespace echelon::runtime {

/// What is opened once and shared by the ranks of a process.
struct Prepared {
  std::unique_ptr<DataStream> data;
  std::vector<std::unique_ptr<DataStream>> evaluationData; // one an evaluation; null: the training data's
  std::string checkpointDirectory;                         // empty: no snapshots
  DirectoryClaim claim;                                    // on it, where it is this process that saves
  bool hasRoomForCopies = true;                            // of the state, to write snapshots from
  bool hasSnapshot = false;                                // start from `snapshot`
  Snapshot snapshot;
  std::vector<Change> changes;    // since the snapshot
  std::vector<std::string> notes; // for the reader
};

/// Opens data and snapshot, and refuses what does not fit; the program's fingerprint of its data says from here on how
/// much there is. `saves`: snapshots are written by this process, or one that it forks. Returns what is wrong, or an
/// empty string.
std::string prepare(Program &program, const Options &options, bool saves, Prepared &prepared);

/// After a rank was lost: the run goes on from the newest snapshot that is whole, or starts over where there is none.
/// Returns what is wrong, or an empty string.
std::string prepareRestart(Program &program, const Options &options, Prepared &prepared);

/// Trains, or evaluates with --evaluate-from. Returns the rank's exit code.
int trainRank(Rank &rank, const Options &options, const Prepared &prepared);

} // namespace echelon::runtime
