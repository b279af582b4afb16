// The disk part of one snapshot: what is done by the rank that writes it, in this order, by one thread.
//
// begin: what a run that died while writing it left goes, and the two files of tensors are made beside the snapshot's
// place. append: their bytes. publish: the files to disk, the manifest, its folder; then all of it under its name, and
// the old ones go. Whoever is killed in between leaves the snapshots that were there, and a folder that no one loads.
#pragma once

#include "runtime/program/Program.h"
#include "runtime/snapshot/Safetensors.h"

#include <string>
#include <vector>

namespace echelon::runtime {

constexpr const char *kSnapshotFiles[] = {"model.safetensors", "optimizer.safetensors"};

class SnapshotFiles {
public:
  /// `course`: that of the run after `step` steps; `keep`: of the newest snapshots; 0: all.
  SnapshotFiles(const Program &program, const Course &course, const std::string &directory, int64_t step, int64_t keep);

  /// Indices of Program::stored, in the order in which their tensors are written.
  static std::vector<size_t> order(const Program &program);

  // Each returns what is wrong, or an empty string; behind an error comes remove().
  std::string begin();
  /// The next bytes, whole elements, of the tensor `stored`; tensors come in the order above. Parameters and what the
  /// optimizer keeps are finite in a snapshot, or it is none.
  std::string append(size_t stored, const std::byte *data, size_t bytes);
  std::string publish();

  /// What is unfinished goes: a full disk is not left full.
  void remove();
  /// "snapshot of step 6: " and the error.
  std::string named(const std::string &error) const;

private:
  const Program &program;
  Course course;
  std::string directory, temporary;
  int64_t step, keep;
  SafetensorsWriter writers[2];
};

/// The name of a step's snapshot in its directory, and the step of a path that ends so; -1 of others.
std::string snapshotName(int64_t step);
int64_t stepOfSnapshot(const std::string &path);

struct WrittenFile {
  std::string name;
  size_t bytes;
  uint32_t crc32;
};
/// The text of a manifest.json.
std::string newManifest(const Program &program, const Course &course, int64_t step,
                        const std::vector<WrittenFile> &files);

} // namespace echelon::runtime
