// How often a run should write snapshots, and what failures leave of its time.
//
// Failures come at random, M seconds apart on average. Training waits C seconds for each snapshot, which is on disk W
// seconds after that: a failure in between falls back on the one before. R seconds after a failure it goes on. Of T
// seconds of training between two snapshots, then,
//
//   goodput = T exp(-(R + W) / M) / (M (exp((T + C) / M) - 1))
//
// is the part of all time that is training whose result is kept: of the time M between two failures, the snapshots that
// are complete before the second one, T each. The best T depends on C and M alone. It is estimated as in J. T. Daly, "A
// higher order estimate of the optimum checkpoint interval for restart dumps", Future Generation Computer Systems 22,
// 2006; where C is small beside M that is sqrt(2 C M), J. W. Young's of 1974.
#pragma once
#include <cstdint>

namespace echelon::planner {

/// What snapshots and failures take, in seconds.
struct Interruptions {
  double wait = 0;    ///< C: training stands still
  double write = 0;   ///< W: it goes on, and no other snapshot can be begun
  double restart = 0; ///< R
  double between = 0; ///< M: of the whole run, not of one node
};

/// Parts of all time; with `goodput` they sum up to 1.
struct Loss {
  double goodput = 1;
  double snapshots = 0; ///< waiting for those that are of use
  double failures = 0;  ///< what was computed in vain, and restarts
};

double youngInterval(double wait, double between);
double dalyInterval(double wait, double between);

/// `interval`: seconds of training between two snapshots.
Loss lossOf(const Interruptions &run, double interval);

/// How many steps should lie between two snapshots: at least 1, and so many that one is on disk before the next.
int64_t stepsBetweenSnapshots(const Interruptions &run, double stepSeconds);

/// That any of so many nodes fails within some seconds, if each does once in `mtbf` on average.
double failureProbability(double seconds, int64_t nodes, double mtbf);

} // namespace echelon::planner
