// Where the time of a profiled step goes on the device: an event after each operation, read behind the step.
#pragma once
#include "runtime/cuda/Device.h"
#include "runtime/profile/Laps.h"
#include "runtime/profile/Table.h"

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
  explicit LapTimer(Stream stream) : stream(stream) {}
  ~LapTimer();
  LapTimer(const LapTimer &) = delete;

  /// Before the first operation of a function.
  void begin();
  /// An operation ends here.
  void lap(size_t entry);
  /// What the function's operations took, once the stream is over.
  void end(runtime::Laps &laps);
  /// When they were.
  void trace(runtime::Trace &trace, const DeviceClock &clock) const;

private:
  void record();

  Stream stream;
  std::vector<cudaEvent_t> events; // of a function: before its first operation, and after each
  std::vector<size_t> entries;     // of the operations
  size_t used = 0;
  uint64_t beganAt = 0; // ticks, and seconds
  double beganSeconds = 0;
};

/// What the device can do: multiply-adds of floats in registers, bytes read and written, bytes copied.
runtime::Limits limitsOf(Stream stream);

} // namespace echelon::cuda
