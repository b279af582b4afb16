// Intervals between snapshots: against numbers reckoned by hand, the exact optimum, and simulated failures.
#include "planner/snapshots/Interval.h"
#include <algorithm>
#include <cmath>
#include <gtest/gtest.h>
#include <random>
#include <vector>

using namespace echelon::planner;

namespace {

/// sqrt(2 x 50 s x 10,000 s) = 1,000 s.
TEST(Interval, YoungsIsTheRootOfTwiceTheCostAndTheMean) { EXPECT_DOUBLE_EQ(youngInterval(50, 10000), 1000); }

/// C / (2 M) = 0.0025, whose root is 0.05: 1,000 x (1 + 0.05 / 3 + 0.0025 / 9) - 50.
TEST(Interval, DalysAddsTwoTermsAndTakesTheCostOff) { EXPECT_NEAR(dalyInterval(50, 10000), 966.94444, 1e-4); }

/// Where a snapshot takes as long as two failures lie apart, and longer.
TEST(Interval, IsTheMeanWhereSnapshotsTakeTwiceAsLong) {
  EXPECT_DOUBLE_EQ(dalyInterval(20000, 10000), 10000);
  EXPECT_DOUBLE_EQ(dalyInterval(90000, 10000), 10000);
}

TEST(Interval, DalysBecomesYoungsWhereSnapshotsAreCheap) {
  EXPECT_NEAR(dalyInterval(1e-6, 1e6) / youngInterval(1e-6, 1e6), 1, 1e-6);
}

/// The goodput's derivative is 0 where T / M = 1 - exp(-(T + C) / M).
double exactInterval(double wait, double between) {
  double low = 0, high = between;
  for (int i = 0; i < 200; ++i) {
    const double middle = (low + high) / 2;
    (middle / between < -std::expm1(-(middle + wait) / between) ? low : high) = middle;
  }
  return low;
}

TEST(Interval, DalysIsNearTheExactOptimum) {
  for (double wait : {1.0, 10.0, 100.0, 1000.0, 5000.0})
    EXPECT_NEAR(dalyInterval(wait, 10000) / exactInterval(wait, 10000), 1, 0.01) << wait;
  EXPECT_GT(std::abs(youngInterval(5000, 10000) / exactInterval(5000, 10000) - 1), 0.3);
}

/// T = M, C = 0: exp(-R / M) / (e - 1), of R = 0 and half of M.
TEST(Interval, GoodputIsWhatIsKept) {
  EXPECT_NEAR(lossOf({0, 0, 0, 100}, 100).goodput, 0.5819767, 1e-7);
  EXPECT_NEAR(lossOf({0, 0, 50, 100}, 100).goodput, 0.3529867, 1e-7);
}

TEST(Interval, WritesAndRestartsLoseAlike) {
  EXPECT_DOUBLE_EQ(lossOf({5, 30, 20, 1000}, 100).goodput, lossOf({5, 10, 40, 1000}, 100).goodput);
}

/// Seldom failures: 1 s of 100 goes to snapshots, half an interval in 10^6 s to failures.
TEST(Interval, LossesAreThoseOfSnapshotsAndOfFailures) {
  const Loss loss = lossOf({1, 0, 0, 1e6}, 99);
  EXPECT_NEAR(loss.snapshots, 0.01, 1e-5);
  EXPECT_NEAR(loss.failures, 50e-6, 1e-6);
  EXPECT_DOUBLE_EQ(loss.goodput + loss.snapshots + loss.failures, 1);
}

/// 966.9 s are 96.7 steps of 10 s, and 0.97 of 1,000 s.
TEST(Interval, IsInWholeSteps) {
  EXPECT_EQ(stepsBetweenSnapshots({50, 0, 0, 10000}, 10), 97);
  EXPECT_EQ(stepsBetweenSnapshots({50, 0, 0, 10000}, 1000), 1);
  EXPECT_EQ(stepsBetweenSnapshots({50, 0, 0, 10000}, 1e9), 1);
}

/// Of two neighbours that with more goodput: 1.4 steps are nearer to 1, and so is what is lost.
TEST(Interval, OfTwoNumbersOfStepsTheBetterIsTaken) {
  const Interruptions run{50, 0, 0, 10000};
  for (double step : {400.0, 550.0, 650.0, 700.0, 900.0}) {
    const int64_t chosen = stepsBetweenSnapshots(run, step);
    for (int64_t other : {1, 2, 3, 4})
      EXPECT_GE(lossOf(run, double(chosen) * step).goodput, lossOf(run, double(other) * step).goodput) << step;
  }
}

/// A disk that takes 2,000 s has none written every 966.9 s.
TEST(Interval, LeavesTheDiskItsTime) { EXPECT_EQ(stepsBetweenSnapshots({50, 2000, 0, 10000}, 10), 200); }

/// 256 nodes, 100,000 h each, over 720 h: 1 - exp(-1.8432).
TEST(Interval, ProbabilityOfAFailureIsThatOfAnyNode) {
  EXPECT_NEAR(failureProbability(720 * 3600, 256, 100000.0 * 3600), 0.842, 0.0005);
  EXPECT_NEAR(failureProbability(1, 1, 1e12), 1e-12, 1e-18);
}

/// One run of a simulated clock: snapshots are begun and come to be complete, until a node fails; what was trained up
/// to the newest complete one is kept.
double simulatedGoodput(const Interruptions &run, double interval, int failures) {
  std::mt19937_64 random(7); // the same failures for every interval
  std::exponential_distribution<double> time(1 / run.between);
  double kept = 0, all = 0;
  for (int i = 0; i < failures; ++i) {
    const double end = time(random);
    all += end;
    double now = run.restart, complete = 0;
    while (now < end) {
      now += interval;                          // trains
      now = std::max(now, complete) + run.wait; // for the snapshot before, and for the copy
      complete = now + run.write;
      if (complete <= end)
        kept += interval;
    }
  }
  return kept / all;
}

constexpr Interruptions kSimulated[] = {{60, 120, 300, 14400}, {600, 0, 900, 7200}, {5, 60, 60, 3600}};

TEST(Interval, GoodputIsThatOfSimulatedFailures) {
  for (const Interruptions &run : kSimulated)
    for (double times : {0.5, 1.0, 2.0}) {
      const double interval = times * dalyInterval(run.wait, run.between);
      EXPECT_NEAR(simulatedGoodput(run, interval, 200000), lossOf(run, interval).goodput, 0.003);
    }
}

/// The top of the parabola through the simulated goodputs, over the logarithm of the interval.
TEST(Interval, SimulatedFailuresHaveTheirOptimumThere) {
  for (const Interruptions &run : kSimulated) {
    const double best = dalyInterval(run.wait, run.between);
    double s0 = 0, s2 = 0, s4 = 0, y0 = 0, y1 = 0, y2 = 0;
    for (int i = -6; i <= 6; ++i) {
      const double x = i * 0.05, y = simulatedGoodput(run, best * std::exp(x), 400000);
      s0 += 1;
      s2 += x * x;
      s4 += x * x * x * x;
      y0 += y;
      y1 += x * y;
      y2 += x * x * y;
    }
    const double slope = y1 / s2, curvature = (s0 * y2 - s2 * y0) / (s0 * s4 - s2 * s2);
    ASSERT_LT(curvature, 0);
    EXPECT_NEAR(-slope / (2 * curvature), 0, 0.05) << run.wait;
  }
}

} // namespace
