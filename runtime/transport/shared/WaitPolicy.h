// How a rank of one machine waits for another: spins a little, then gives its core away, and never longer than the
// deadline; sooner, where the one that is late will never come (Suspicion).
#pragma once

#include "runtime/transport/Ticks.h"
#include "runtime/transport/WaitClock.h"
#include "runtime/transport/shared/Segment.h"

#include <optional>

namespace echelon::runtime {

/// On how many cores this process may run.
int coresOfThisProcess();

/// One wait. `while (!ready()) patience.pause(missing);`, where `missing` is a rank that has not come.
class WaitPolicy {
public:
  WaitPolicy(Segment &segment, int rank, double deadlineSeconds)
      : segment(segment), rank(rank), deadlineSeconds(deadlineSeconds) {}
  ~WaitPolicy() {
    segment.status(rank).waitedTicks += waitedTicks;
    if (clock)
      segment.status(rank).waitsFor.store(-1, std::memory_order_relaxed);
  }

  /// Looks whether `ready` for as long as a rank takes that is about to come, without a pause in between: a pause is as
  /// long as what is awaited, and so is a look at the clock; such waits are not counted.
  template <typename Ready> bool isSoon(Ready ready) const {
    if (hasCores())
      for (int look = 0; look < kSoonLooks; ++look)
        if (ready())
          return true;
    return false;
  }

  /// Waits a little. Ends this rank when another has failed or the deadline is over; the message names who is late.
  void pause(int missing) {
    const uint64_t now = ticks();
    if (now - last < kMostPauseTicks) // else the rank has done something since the last pause
      waitedTicks += now - last;
    last = now;
    if (pauses == 0)
      spins = spinsFor(missing);
    if (++pauses <= spins) {
      relax();
    } else {
      pauseLong(missing);
      last = ticks();
      waitedTicks += last - now;
    }
  }

private:
  static void relax() {
#if defined(__x86_64__)
    __builtin_ia32_pause();
#endif
  }
  bool hasCores() const; // one for each rank
  int spinsFor(int missing);
  void pauseLong(int missing);
  int lateRank(int missing) const;
  [[noreturn]] void timeOut(int late, int missing, double waitedSeconds);

  Segment &segment;
  int rank;
  double deadlineSeconds;
  static constexpr int kSoonLooks = 100;             // some 3 ns each
  static constexpr uint64_t kMostPauseTicks = 10000; // between two pauses that only look whether the wait is over
  uint64_t last = 0, waitedTicks = 0;
  int pauses = 0, spins = 0;
  std::optional<WaitClock> clock; // while it waits for long
  double nextLook = 0;            // seconds of waiting
  Suspicion suspicion;
};

} // namespace echelon::runtime
