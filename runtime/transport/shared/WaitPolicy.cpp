#include "runtime/transport/shared/WaitPolicy.h"

#include "runtime/launch/Fail.h"

#include <algorithm>
#include <cstdio>
#include <sched.h>
#include <thread>
#include <vector>

namespace echelon::runtime {

int coresOfThisProcess() {
  cpu_set_t set;
  return sched_getaffinity(0, sizeof set, &set) == 0 ? CPU_COUNT(&set) : 1;
}

bool WaitPolicy::hasCores() const {
  static const int cores = coresOfThisProcess();
  return segment.ranks() <= cores;
}

// A pause is some 20 to 30 ns: with a core for each rank, spin as long as a message usually takes; with fewer cores, or
// where other work has pushed two ranks onto one, the rank that is waited for may need this very core.
int WaitPolicy::spinsFor(int missing) {
  const int core = sched_getcpu();
  segment.status(rank).core.store(core, std::memory_order_relaxed);
  const bool alone = segment.status(missing).core.load(std::memory_order_relaxed) != core;
  return hasCores() && alone ? 1000 : 8;
}

void WaitPolicy::pauseLong(int missing) {
  RankStatus &own = segment.status(rank);
  if (!clock)
    clock.emplace();
  own.waitsFor.store(missing, std::memory_order_relaxed);
  if (segment.header().failedRank.load(std::memory_order_relaxed) >= 0)
    fail("stopped because another rank failed"); // printed by that rank only
  const double seconds = clock->seconds();
  if (seconds > std::min(std::max(nextLook, clock->trustsUntil()), deadlineSeconds)) {
    const int late = lateRank(missing);
    if (seconds > deadlineSeconds || suspicion.isHopeless(own, own.steps.median(), segment.status(late), seconds))
      timeOut(late, missing, seconds);
    nextLook = seconds + 0.05;
  }
  // Giving the core away costs well below a microsecond when nobody wants it. Who has waited for milliseconds waits for
  // a computation: sleep, so that it has all cores.
  if (seconds < 2e-3)
    sched_yield();
  else
    std::this_thread::sleep_for(std::chrono::microseconds(seconds < 20e-3 ? 20 : 100));
}

// The rank that is late may itself wait for another: follow to the one that waits for nobody.
int WaitPolicy::lateRank(int missing) const {
  std::vector<bool> seen(segment.ranks(), false);
  int late = missing;
  seen[rank] = true;
  while (!seen[late]) {
    seen[late] = true;
    int next = segment.status(late).waitsFor.load(std::memory_order_relaxed);
    if (next < 0 || segment.status(late).exitCode.load(std::memory_order_relaxed) >= 0)
      break;
    late = next;
  }
  if (late == rank) // a circle: what is told is whom this rank waits for
    late = missing;
  for (int r = 0; r < segment.ranks(); ++r)
    if (seen[r] && r != rank && segment.status(r).isStopped())
      late = r;
  return late;
}

void WaitPolicy::timeOut(int late, int missing, double waitedSeconds) {
  segment.header().lost.store(true);
  const RankStatus &own = segment.status(rank), &other = segment.status(late);
  if (other.exitCode.load(std::memory_order_relaxed) < 0 && !other.isStopped() &&
      other.waitsFor.load(std::memory_order_relaxed) >= 0) {
    char seconds[32];
    std::snprintf(seconds, sizeof seconds, "%g", std::min(waitedSeconds, deadlineSeconds));
    fail("ranks wait for each other: this one in " + own.placeAndStep() + " for rank " + std::to_string(missing) +
         "; rank " + std::to_string(late) + " " + other.describe() + " (waited " + seconds + " s)");
  }
  fail(lateMessage(own, late, other, waitedSeconds, deadlineSeconds));
}

} // namespace echelon::runtime
