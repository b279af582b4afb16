// Snapshots that are written while training goes on. At its step each rank copies what it holds of the snapshot, and
// training waits for that alone; a thread of rank 0 makes whole tensors of all ranks' copies and writes them to disk.
// It reads the other ranks' copies where they lie in memory that it reaches; else they come as messages
// (SnapshotTransfer).
//
// The ranks meet twice for a snapshot, each time on the threads that are the ranks: when all have copied, before the
// thread begins to read; and when the next snapshot is due, or the run ends, where rank 0 waits for its thread and the
// others for rank 0, before a copy is written again. So there are never two at once, no rank changes what the thread
// reads, and what is done to the disk is done by one thread in the order that SnapshotFiles has.
//
// Where the machine has no memory for the copies they are written in the step itself (saveSnapshot).
#pragma once

#include "runtime/program/Rank.h"
#include "runtime/snapshot/SnapshotFiles.h"
#include "runtime/snapshot/SnapshotTransfer.h"

#include <functional>
#include <future>
#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace echelon::runtime {

class SnapshotWriter {
public:
  /// Collective. `directory` and `keep` are those of saveSnapshot; `hasRoom`: this machine has memory for the copies.
  SnapshotWriter(Rank &rank, const std::string &directory, int64_t keep, bool hasRoom);
  ~SnapshotWriter(); // what was begun comes to its end, where all ranks come here
  SnapshotWriter(const SnapshotWriter &) = delete;

  /// Collective. A program that computes on a device has its state there: the copy is made from it. The state after
  /// `step` steps is what will be written; what was begun before is finished first.
  void begin(int64_t step);
  /// Collective. Returns when what was begun is on disk; ends the run where it cannot be written.
  void finish();
  /// Ends the run where what was begun turned out not to be writable. Rank 0 alone knows.
  void check();

  /// Of this rank's copy, as planned; 0 where there is none.
  size_t bytes() const { return copy ? copyBytes(rank.program()) : 0; }

private:
  void copyState();
  std::string write(SnapshotFiles &files);
  std::string writeTensor(SnapshotFiles &files, size_t stored);
  std::string pack();
  void awaitThread(const std::function<void()> &meanwhile);
  void touch();
  void tellTime();
  void collect();

  Rank &rank;
  std::string directory;
  int64_t keep;
  bool gathers = false;                 // others hold what rank 0 lacks
  std::byte *copy = nullptr;            // of the state arena; null: written in the step
  std::vector<size_t> own;              // tensors, or pieces of them, that this rank copies
  std::vector<const std::byte *> peers; // all ranks' copies that rank 0 reads
  std::vector<TensorPiece> tensors;     // as they lie in the state arena
  std::optional<SnapshotTransfer> mail; // brings those that it does not read
  bool isBegun = false;                 // the same on all ranks
  double secondsBefore = 0;             // of the processor, that threads have used which have ended
  // Last: the threads, which use all of the above, end first.
  std::future<void> touched;
  std::future<std::string> written; // what went wrong; of rank 0, and of those that pack
};

/// Bytes of this process's memory that hold copies, of all its ranks.
size_t copiedBytes();

} // namespace echelon::runtime
