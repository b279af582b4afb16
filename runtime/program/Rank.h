// One rank of a running program: who it is, its arenas, its groups, and where the run stands. Generated code gets one
// as `r`.
#pragma once

#include "runtime/program/Program.h"
#include "runtime/random/Philox.h"

#include <cstddef>
#include <memory>
#include <vector>

namespace echelon::runtime {

class Transport;
struct Group;

/// Zeroed memory from mmap, 64-byte aligned; huge pages where the system gives them.
class Arena {
public:
  explicit Arena(int64_t bytes);
  ~Arena();
  Arena(const Arena &) = delete;
  Arena &operator=(const Arena &) = delete;
  std::byte *data() const { return data_; }
  int64_t bytes() const { return bytes_; }

private:
  std::byte *data_ = nullptr;
  int64_t bytes_;
};

class Rank {
public:
  /// Collective: all ranks of the transport build theirs with the same program.
  Rank(const Program &program, Transport &transport);
  ~Rank();

  int rank() const { return rank_; }
  int size() const { return size_; }
  /// This rank's coordinate on a mesh axis (index into Program::mesh).
  int coordinate(int meshAxis) const { return coordinates_[size_t(meshAxis)]; }
  const std::vector<int> &coordinates() const { return coordinates_; }
  Transport &transport() { return transport_; }
  operator Transport &() { return transport_; } // collectives take the rank itself
  /// The group of Program::groups[index] that this rank is in.
  const Group &group(int index) const { return *groups_[size_t(index)]; }
  const Program &program() const { return program_; }

  /// Byte offsets into the three arenas.
  template <class T> T *state(int64_t offset) { return reinterpret_cast<T *>(state_.data() + offset); }
  template <class T> T *input(int64_t offset) { return reinterpret_cast<T *>(input_.data() + offset); }
  template <class T> T *work(int64_t offset) { return reinterpret_cast<T *>(work_.data() + offset); }

  int64_t step() const { return step_; } // steps done before this one
  uint64_t seed() const { return program_.seed; }
  bool training() const { return training_; }

  /// How many samples of the global batch are real: all of them in training; in an evaluation's last batch the samples
  /// from this number on (counted in the global batch) are padding, which no reduction may read.
  int64_t validSamples() const { return validSamples_; }
  /// Evaluation: the samples of the whole evaluation. Training: the batch.
  int64_t sampleCount() const { return sampleCount_; }
  /// Evaluation: samples before this batch; training: 0. Added to `batch` coordinates of in-model random values.
  int64_t batchOffset() const { return batchOffset_; }

  /// The key of an in-model random statement at this step; in evaluation one that never changes.
  RandomKey randomKey(uint64_t path) const { return {program_.seed, path, training_ ? uint64_t(step_) : ~uint64_t(0)}; }

  /// Gives the value of Program::scalars[slot].
  void report(int slot, double value) {
    reported_[size_t(slot)] = value;
    hasReport_[size_t(slot)] = true;
  }

  // --- what the training loop sets; generated code leaves these alone
  void beginTraining(int64_t step);
  void beginEvaluation(int64_t samples);
  void setEvaluationBatch(int64_t offset, int64_t valid);
  bool hasReport(int slot) const { return hasReport_[size_t(slot)]; }
  double reported(int slot) const { return reported_[size_t(slot)]; }
  int64_t arenaBytes() const { return state_.bytes() + input_.bytes() + work_.bytes(); }

private:
  const Program &program_;
  Transport &transport_;
  int rank_, size_;
  std::vector<int> coordinates_;
  std::vector<std::unique_ptr<Group>> groups_;
  Arena state_, input_, work_;
  int64_t step_ = 0, validSamples_ = 0, sampleCount_ = 0, batchOffset_ = 0;
  bool training_ = true;
  std::vector<double> reported_;
  std::vector<bool> hasReport_;
};

} // namespace echelon::runtime
