// One rank of a running program: who it is, its arenas, its groups, and where the run stands. Generated code gets one
// as `r`.
#pragma once

#include "runtime/profile/Laps.h"
#include "runtime/program/Device.h"
#include "runtime/program/Program.h"
#include "runtime/random/Philox.h"
#include "runtime/transport/Transport.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

namespace echelon::runtime {

/// Bytes that the three arenas of a rank take together: what the launcher must be able to hand out.
size_t arenaBytes(const Program &program);
/// Of these, and of the state among them, what is in memory: all but what is offloaded.
size_t residentBytes(const Program &program);
size_t residentStateBytes(const Program &program);
/// Bytes of the copy of its state that a rank's snapshots are written from; 0 where the program writes none.
size_t copyBytes(const Program &program);

/// How much of a running average stays at its n-th update, of one that forgets by `decay`: less at first, so that it
/// does not average the start values.
inline double average_decay(double decay, int64_t n) { return std::min(decay, double(1 + n) / double(10 + n)); }

/// A row of equal parts, one for each position of a loop: `stride` elements apart.
template <class T> struct Stack {
  T *all;
  int64_t stride;
  T *operator[](int64_t position) const { return all + position * stride; }
};

class LiveWorkers;
class OffloadedState;

class Rank {
public:
  /// Collective: all ranks of the transport build theirs with the same program.
  Rank(const Program &program, Transport &transport);
  Rank(const Rank &) = delete;
  ~Rank();

  int rank() const { return ownRank; }
  int size() const { return ownSize; }
  /// This rank's coordinate on a mesh axis (index into Program::mesh).
  int coordinate(int meshAxis) const { return meshCoordinate[size_t(meshAxis)]; }
  const std::vector<int> &coordinates() const { return meshCoordinate; }
  Transport &transport() { return ownTransport; }
  operator Transport &() { return ownTransport; } // collectives take the rank itself
  /// The group of Program::groups[index] that this rank is in.
  const Group &group(int index) const { return ownGroups[size_t(index)]; }
  const Program &program() const { return ownProgram; }

  /// Byte offsets into the three arenas. Of a program that computes on a device these are the host's: its state is what
  /// the device has been given or has shown, its inputs are those that the program has read, and there is no work.
  template <class T> T *state(int64_t offset) { return reinterpret_cast<T *>(stateArena + offset); }
  template <class T> T *input(int64_t offset) {
    return reinterpret_cast<T *>((ownDevice ? ownDevice->inputs() : inputArena) + offset);
  }
  template <class T> T *work(int64_t offset) { return reinterpret_cast<T *>(workArena + offset); }

  /// Null where no state lies in a file.
  OffloadedState *offloaded() { return ownOffloaded.get(); }
  /// Null where the program computes in the host's memory.
  Device *device() { return ownDevice.get(); }
  /// Before the program computes with state that the host has set, and before the host reads it.
  void stateToDevice() {
    if (ownDevice)
      ownDevice->takeState();
  }
  void stateFromDevice() {
    if (ownDevice)
      ownDevice->showState();
  }

  /// Where inputs are put for the function that runs next; and that they are there. On a device this may be while
  /// another function runs.
  std::byte *inputsToFill() { return ownDevice ? ownDevice->inputsToFill() : inputArena; }
  void inputsAreFilled() {
    if (ownDevice)
      ownDevice->sendInputs();
  }

  /// Bytes of the state that the program computes with, from an offset on.
  void readState(int64_t offset, void *to, size_t bytes);
  void writeState(int64_t offset, const void *from, size_t bytes);

  int64_t step() const { return currentStep; } // steps done before this one
  /// How often the optimizer's moments have been updated, with this step's update.
  int64_t updates() const { return currentStep + 1 - ownCourse.momentsFrom; }
  /// How often the averages of parameters have been updated, with this step's update.
  int64_t averagings() const { return currentStep + 1 - ownCourse.averagesFrom; }
  /// What the derivative of the loss starts from.
  int64_t lossScale() const { return ownCourse.lossScale; }
  uint64_t seed() const { return ownProgram.seed; }
  bool training() const { return isTraining; }

  /// How many samples of the global batch are real: all of them in training; in an evaluation's last batch the samples
  /// from this number on (counted in the global batch) are padding, which no reduction may read.
  int64_t validSamples() const { return currentValid; }
  /// Evaluation: the samples of the whole evaluation. Training: the batch.
  int64_t sampleCount() const { return currentSamples; }
  /// Evaluation: samples before this batch; training: 0, under a sync policy the samples of the same round before this
  /// mini-batch. Added to `batch` coordinates of in-model random values.
  int64_t batchOffset() const { return currentOffset; }

  /// The key of an in-model random statement at this step; in evaluation one that never changes. Under a sync policy it
  /// is of the samples, whoever takes them and when.
  RandomKey randomKey(uint64_t path) const {
    return {ownProgram.seed, path, isTraining ? uint64_t(currentRound) : ~uint64_t(0)};
  }

  /// Under a sync policy: what the gradient of this rank's worker counts in the update, 0 where it is not in; and
  /// whether nothing is handed in yet for it.
  double handInWeight() const { return currentWeight; }
  bool isFirstIn() const { return isNothingIn; }
  /// Of the workers that this rank works for, the one that hands in.
  int64_t handInWorker() const { return currentWorker; }

  /// Gives the value of Program::scalars[slot].
  void report(int slot, double value) {
    reportedValue[size_t(slot)] = value;
    isReported[size_t(slot)] = true;
  }

  /// A line for the run's log, once it is there; of rank 0 alone it is read.
  void note(const std::string &line) { ownNotes.push_back(line); }
  const std::vector<std::string> &notes() const { return ownNotes; }

  /// A gradient has been added to the sum of squares: the first after which the sum is not finite is remembered.
  void watch(const char *parameter, const double *sumOfSquares) {
    if (!brokenGradient && !std::isfinite(*sumOfSquares))
      brokenGradient = parameter;
  }
  /// Between operations, under a sync policy whose workers arrive in real time: whether there is an update to take part
  /// in, or the work is no longer wanted.
  void look();
  /// The operation of Program::profiled[entry] ends here.
  void lap(size_t entry) { laps->lap(entry); }

  /// Whether a loss or the norm of this step is not finite. The same on all ranks, since what is reported is.
  bool isBroken() const;
  /// Whether that is the gradients' fault, and a smaller loss scale may mend it.
  bool hasOverflowed() const;
  /// Path of the parameter whose gradient was the first on this rank that is not finite; null: none was.
  const char *firstBrokenGradient() const { return brokenGradient; }

  // --- what the training loop sets; generated code leaves these alone
  void beginTraining(int64_t step);
  void beginTicket(int64_t ticket);
  /// Random values of an update are the same on all workers, whatever their tickets.
  void beginUpdate(int64_t version) { currentRound = version; }
  void setHandIn(double weight, bool isFirst, int64_t worker = 0) {
    currentWeight = weight;
    isNothingIn = isFirst;
    currentWorker = worker;
  }
  /// From here on steps end before they update anything, as if they were broken.
  void holdBack(bool does) { holdsBack = does; }
  bool isHeldBack() const { return holdsBack; }
  void beginEvaluation(int64_t samples);
  void setEvaluationBatch(int64_t offset, int64_t valid);
  void watchWith(LiveWorkers *newWorkers) { live = newWorkers; }
  void count(Laps *newLaps) { laps = newLaps; }
  Laps *counted() const { return laps; }
  /// What the host does while a device computes the next function. Without a device there is no such time, and it is
  /// not done.
  void setMeanwhile(std::function<void()> work) { meanwhile = std::move(work); }
  /// The device is busy.
  void doMeanwhile() {
    if (const auto work = std::exchange(meanwhile, nullptr))
      work();
  }
  const Course &course() const { return ownCourse; }
  void setCourse(const Course &course);
  /// Samples seen before a step, from 0.
  int64_t samplesBefore(int64_t step) const { return ownCourse.samplesBefore(step, ownProgram.batch); }
  bool hasReport(int slot) const { return isReported[size_t(slot)]; }
  double reported(int slot) const { return reportedValue[size_t(slot)]; }

private:
  const Program &ownProgram;
  Transport &ownTransport;
  int ownRank, ownSize;
  std::vector<int> meshCoordinate;
  std::vector<Group> ownGroups;
  std::byte *stateArena, *inputArena, *workArena;
  std::unique_ptr<OffloadedState> ownOffloaded;
  std::unique_ptr<Device> ownDevice;
  std::function<void()> meanwhile;
  Course ownCourse;
  double currentWeight = 0;
  int64_t currentWorker = 0;
  bool isNothingIn = true, holdsBack = false;
  int64_t currentStep = 0, currentRound = 0, currentValid = 0, currentSamples = 0, currentOffset = 0;
  bool isTraining = true;
  const char *brokenGradient = nullptr;
  LiveWorkers *live = nullptr;
  Laps *laps = nullptr; // where the program is profiled
  std::vector<double> reportedValue;
  std::vector<bool> isReported;
  std::vector<std::string> ownNotes;
};

} // namespace echelon::runtime
