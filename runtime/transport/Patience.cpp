#include "runtime/transport/Patience.h"

#include "runtime/launch/Fail.h"

#include <cstdio>
#include <sched.h>
#include <thread>
#include <vector>

namespace echelon::runtime {

static int coresOfThisProcess() {
  cpu_set_t set;
  return sched_getaffinity(0, sizeof set, &set) == 0 ? CPU_COUNT(&set) : 1;
}

bool Patience::hasCores() const {
  static const int cores = coresOfThisProcess();
  return segment.ranks() <= cores;
}

// A pause is some 20 to 30 ns: with a core for each rank, spin as long as a message usually takes; with fewer cores, or
// where other work has pushed two ranks onto one, the rank that is waited for may need this very core.
int Patience::spinsFor(int missing) {
  const int core = sched_getcpu();
  segment.status(rank).core.store(core, std::memory_order_relaxed);
  const bool alone = segment.status(missing).core.load(std::memory_order_relaxed) != core;
  return hasCores() && alone ? 1000 : 8;
}

void Patience::pauseLong(int missing) {
  auto now = std::chrono::steady_clock::now();
  RankStatus &own = segment.status(rank);
  if (!waiting) {
    waiting = true;
    begin = now;
  }
  own.waitsFor.store(missing, std::memory_order_relaxed);
  if (segment.header().failedRank.load(std::memory_order_relaxed) >= 0)
    fail("stopped because another rank failed"); // printed by that rank only
  double waited = std::chrono::duration<double>(now - begin).count();
  if (waited > std::min(nextLook, deadlineSeconds)) {
    const int late = lateRank(missing);
    if (waited > deadlineSeconds || isHopeless(late, waited))
      timeOut(late, missing, waited);
    nextLook = waited + 0.05;
  }
  // Giving the core away costs well below a microsecond when nobody wants it. Who has waited for milliseconds waits for
  // a computation: sleep, so that it has all cores.
  if (waited < 2e-3)
    sched_yield();
  else
    std::this_thread::sleep_for(std::chrono::microseconds(waited < 20e-3 ? 20 : 100));
}

// The rank that is late may itself wait for another: follow to the one that waits for nobody.
int Patience::lateRank(int missing) const {
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

bool Patience::isHopeless(int late, double waitedSeconds) {
  const RankStatus &own = segment.status(rank), &other = segment.status(late);
  const double now = other.processorSeconds();
  if (late != watched) {
    watched = late;
    processorThen = now;
    ownProcessor = own.processorSeconds() - own.computedFrom.load(std::memory_order_relaxed);
  }
  constexpr double kLeast = 2;
  const double some = std::max(kLeast, 5 * own.steps.median());
  if (waitedSeconds < some)
    return false;
  if (other.isStopped())
    return true;
  return own.computes.load(std::memory_order_relaxed) && other.computes.load(std::memory_order_relaxed) &&
         other.waitsFor.load(std::memory_order_relaxed) < 0 &&
         now - processorThen > std::max(some - 0.5, 2 * ownProcessor);
}

void Patience::timeOut(int late, int missing, double waitedSeconds) {
  char seconds[32];
  std::snprintf(seconds, sizeof seconds, waitedSeconds > deadlineSeconds ? "%g" : "%.1f",
                std::min(waitedSeconds, deadlineSeconds));
  segment.header().lost.store(true);
  RankStatus &own = segment.status(rank), &other = segment.status(late);
  std::string here = own.place();
  int64_t step = own.step.load(std::memory_order_relaxed);
  if (step >= 0)
    here += " at step " + std::to_string(step);
  if (other.exitCode.load(std::memory_order_relaxed) >= 0)
    fail("rank " + std::to_string(late) + " ended and did not come to " + here + "; it was " + other.describe());
  if (other.isStopped())
    fail("rank " + std::to_string(late) + " is stopped (by SIGSTOP or a debugger) and did not come to " + here +
         " within " + seconds + " s; it was " + other.describe());
  if (other.waitsFor.load(std::memory_order_relaxed) >= 0)
    fail("ranks wait for each other: this one in " + here + " for rank " + std::to_string(missing) + "; rank " +
         std::to_string(late) + " " + other.describe() + " (waited " + seconds + " s)");
  fail("rank " + std::to_string(late) + " did not come to " + here + " within " + seconds + " s; it is " +
       other.describe());
}

} // namespace echelon::runtime
