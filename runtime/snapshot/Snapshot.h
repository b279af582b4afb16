// Snapshots: folders DIRECTORY/step-00000200 with model.safetensors (parameters and state), optimizer.safetensors and
// manifest.json (step, what the run was, checksums). Tensors are whole and named by path, so that any layout loads any
// snapshot.
//
// A snapshot is written beside its place and moved there when all of it is on disk: one that exists under its name is
// complete, unless the disk damaged it, which its checksums tell.
#pragma once

#include "runtime/program/Rank.h"
#include "runtime/snapshot/Safetensors.h"

#include <set>
#include <string>
#include <vector>

namespace echelon::runtime {

/// A snapshot whose manifest and checksums have been verified.
struct Snapshot {
  std::string path;
  int version = 0;
  int64_t step = 0, samples = 0, momentsFrom = 0, averagesFrom = 0, lossScale = 0, goodSteps = 0; // see Course
  int64_t miniBatch = 0; // of the tickets; 0: it has none
  Tickets tickets;
  std::vector<Fingerprint> fingerprints;
  std::vector<SafetensorsFile> files;
  std::set<std::string> startsAtZero; // tensors of the optimizer that are not taken from it

  /// Null where it has none of this name.
  const SafetensorsFile::Tensor *tensor(const std::string &name) const;
};

/// Folders of snapshots in a directory, newest first; none where the directory does not exist. An error message where
/// it cannot be read.
std::string listSnapshots(const std::string &directory, std::vector<std::string> &paths);

/// Reads the manifest of one and verifies lengths and checksums. Returns what is wrong, or an empty string.
std::string openSnapshot(const std::string &path, Snapshot &snapshot);

/// The newest whole snapshot of a directory; `path` may also be a snapshot itself. Those that are damaged are named in
/// `warnings` and passed over. Returns an error where there is none.
std::string findSnapshot(const std::string &path, Snapshot &snapshot, std::vector<std::string> &warnings);

/// Collective. Writes the state after `step` steps and removes all but the newest `keep` (0: none is removed).
void saveSnapshot(Rank &rank, const std::string &directory, int64_t step, int64_t keep);

/// Fills this rank's stored tensors, all of them or (withOptimizer false) all but the optimizer's. Every tensor of the
/// program must be there in its shape and type, but those that start at zero; else the run ends.
void loadSnapshot(Rank &rank, const Snapshot &snapshot, bool withOptimizer);

} // namespace echelon::runtime
