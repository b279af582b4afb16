// Where the time of a profiled step goes on the device: an event after each operation, read behind the step.
#pragma once
#include "runtime/cuda/Device.h"
#include "runtime/cuda/Range.h"
#include "runtime/profile/Laps.h"
#include "runtime/profile/Table.h"
#include "runtime/program/Program.h"

#include <map>
#include <vector>

namespace echelon::cuda {

/// When events of a device were, on the clock of the host (Ticks.h): to some microseconds.
class DeviceClock {
public:
  /// Waits for the stream.
  explicit DeviceClock(Stream stream);
  ~DeviceClock();
  DeviceClock(const DeviceClock &) = delete;
  /// Of an event before this clock was made, with times, that is over.
  uint64_t ticksOf(cudaEvent_t event) const;

private:
  cudaEvent_t known = nullptr;
  uint64_t ticks = 0; // when it was
  double ticksPerSecond = 0;
};

class LapTimer {
public:
  LapTimer(Stream stream, const std::vector<runtime::ProfiledOp> &operations)
      : stream(stream), operations(operations) {}
  ~LapTimer();
  LapTimer(const LapTimer &) = delete;

  /// Before the first operation of a function. Once it has run a tool sees its operations as ranges: an operation is
  /// known by its end alone, so each goes by what came at its place the last time.
  void begin(const void *function);
  /// An operation ends here.
  void lap(size_t entry);
  /// What the function's operations took, once the stream is over.
  void end(runtime::Laps &laps);
  /// When they were.
  void trace(runtime::Trace &trace, const DeviceClock &clock) const;

private:
  void record();
  void showNext();

  Stream stream;
  const std::vector<runtime::ProfiledOp> &operations;
  std::map<const void *, std::vector<size_t>> before; // entries of each function when it ran last
  std::vector<size_t> *expected = nullptr;            // of this one; null: nobody looks
  LooseRange shown;
  std::vector<cudaEvent_t> events; // of a function: before its first operation, and after each
  std::vector<size_t> entries;     // of the operations
  size_t used = 0;
  uint64_t beganAt = 0; // ticks, and seconds
  double beganSeconds = 0;
};

/// What the device can do: multiply-adds of floats in registers, bytes read and written, bytes copied.
runtime::Limits limitsOf(Stream stream);

} // namespace echelon::cuda
