// How long somebody waits, by the time in which this process ran.
#pragma once

#include <chrono>

namespace echelon::runtime {

/// Counts from when it is made. Who waits looks at it often; where two looks lie far from each other the process itself
/// stood still (Ctrl-Z, a batch system that suspends a job, a machine that has no time for it), and nobody is late for
/// that.
class WaitClock {
public:
  using Clock = std::chrono::steady_clock;

  explicit WaitClock(Clock::time_point begin = Clock::now()) : begin(begin), last(begin) {}

  /// Seconds without those in which the process stood still.
  double seconds() {
    const auto now = Clock::now();
    const bool hasStood = now - last > kFar;
    if (hasStood)
      begin += now - last;
    last = now;
    const double waited = std::chrono::duration<double>(now - begin).count();
    if (hasStood)
      trusts = waited + 0.5;
    return waited;
  }
  /// Seconds until which nobody is suspected: half a second, and as long after each standstill, since the others may go
  /// on a little later.
  double trustsUntil() const { return trusts; }

private:
  static constexpr std::chrono::milliseconds kFar{500};
  Clock::time_point begin, last;
  double trusts = 0.5;
};

} // namespace echelon::runtime
