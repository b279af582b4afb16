// What a sync policy costs: the expected time of an update and the mean staleness of the gradients that it applies.
// From Dutta, Joshi, Ghosh, Dube, Nagpurkar, "Slow and stale gradients can win the race", AISTATS 2018.
#pragma once
#include "runtime/sync/SyncPolicy.h"
#include <cstdint>
#include <utility>
#include <vector>

namespace echelon {

using runtime::SyncPolicy; // all but Local; `async` is KAsync with k = 1, which KBatchAsync with k = 1 equals

/// The time that a worker takes for a mini-batch: a fresh draw for each, or a constant of each worker. All times of
/// this file are in one unit, the caller's.
struct Delays {
  double shift = 0;              ///< least time
  double mean = 1;               ///< of the exponential that comes on top
  std::vector<double> constants; ///< (workers); where there are any, nothing is drawn

  static Delays exponential(double mean) { return shifted(0, mean); }
  static Delays shifted(double shift, double mean) { return {shift, mean, {}}; }
  static Delays each(std::vector<double> constants) { return {0, 0, std::move(constants)}; }
};

struct PolicyTime {
  double update = 0;    ///< expected time of an update
  double miniBatch = 0; ///< expected time of a mini-batch that is applied, by which epochs compare: update / gradients
  double staleness = 0; ///< mean over applied gradients: updates between a gradient's read and its own
  bool exact = true;    ///< update is a closed form; false: simulated, with a standard error of at most 0.3 %
};

/// The long run of a policy without a limit on staleness. k: gradients of an update, of which EveryStep takes one of
/// each worker, whatever k says. Wanted: workers >= 1, k >= 1, and k <= workers for KSync and KAsync; delays above 0,
/// constants for all workers or none. A simulation draws from a fixed seed: equal arguments give equal times.
PolicyTime expectedTime(SyncPolicy::Kind policy, int64_t k, int64_t workers, const Delays &delays);

/// Of workers that train by themselves and meet after so many mini-batches each: the expected time of one of these, the
/// slowest worker's sum by their number. It comes nearer to the mean the rarer they meet.
double expectedLocalTime(int64_t steps, int64_t workers, const Delays &delays);

} // namespace echelon
