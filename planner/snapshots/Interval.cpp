#include "planner/snapshots/Interval.h"

#include <algorithm>
#include <cmath>

namespace echelon::planner {

double youngInterval(double wait, double between) { return std::sqrt(2 * wait * between); }

double dalyInterval(double wait, double between) {
  const double part = wait / (2 * between);
  if (part >= 1)
    return between;
  return youngInterval(wait, between) * (1 + std::sqrt(part) / 3 + part / 9) - wait;
}

Loss lossOf(const Interruptions &run, double interval) {
  Loss loss;
  loss.goodput = interval * std::exp(-(run.restart + run.write) / run.between) /
                 (run.between * std::expm1((interval + run.wait) / run.between));
  loss.snapshots = loss.goodput * run.wait / interval;
  loss.failures = 1 - loss.goodput - loss.snapshots;
  return loss;
}

int64_t stepsBetweenSnapshots(const Interruptions &run, double stepSeconds) {
  constexpr double kMost = 1e15; // what is counted exactly, with room to spare
  auto steps = [&](double seconds) { return std::clamp(seconds / stepSeconds, 1.0, kMost); };
  const double least = std::ceil(steps(run.write)), best = steps(dalyInterval(run.wait, run.between));
  const double below = std::max(std::floor(best), least), above = std::max(std::ceil(best), least);
  const bool isAbove = lossOf(run, above * stepSeconds).goodput > lossOf(run, below * stepSeconds).goodput;
  return static_cast<int64_t>(isAbove ? above : below);
}

double failureProbability(double seconds, int64_t nodes, double mtbf) {
  return -std::expm1(-seconds * double(nodes) / mtbf);
}

} // namespace echelon::planner
