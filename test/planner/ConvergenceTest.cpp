// Steps to a target: curves whose law is known, and least squares whose solution is.
#include "planner/convergence/Convergence.h"
#include "planner/convergence/LeastSquares.h"
#include <cmath>
#include <functional>
#include <gtest/gtest.h>
#include <random>

using namespace echelon::planner;

namespace {

double squaresOf(const Equations &equations, const std::vector<double> &x) {
  double sum = 0;
  for (size_t row = 0; row < equations.a.size(); ++row) {
    double value = -equations.b[row];
    for (size_t i = 0; i < x.size(); ++i)
      value += equations.a[row][i] * x[i];
    sum += value * value;
  }
  return sum;
}

/// Where the solution without a bound is above 0 it is the solution.
TEST(LeastSquares, FindsWhatIsAboveZero) {
  Equations equations(2);
  for (double t : {0.0, 1.0, 2.0, 3.0})
    equations.add({1, t}, 3 + 2 * t);
  const std::vector<double> x = leastSquaresAboveZero(equations);
  EXPECT_NEAR(x[0], 3, 1e-6);
  EXPECT_NEAR(x[1], 2, 1e-6);
}

/// A line that falls: its slope is 0, and what is left is the mean.
TEST(LeastSquares, KeepsWhatWouldBeNegativeAtZero) {
  Equations equations(2);
  for (double t : {0.0, 1.0, 2.0, 3.0})
    equations.add({1, t}, 8 - t);
  const std::vector<double> x = leastSquaresAboveZero(equations);
  EXPECT_EQ(x[1], 0);
  EXPECT_NEAR(x[0], 6.5, 1e-6);
}

/// Of all sets of unknowns that may be free, none whose solution is above 0 has less squares. Unknowns by threes,
/// drawn.
TEST(LeastSquares, NoOtherSetOfFreeUnknownsIsBetter) {
  std::mt19937 random(5);
  auto draw = [&] { return double(random() % 2001) / 1000 - 1; };
  for (int trial = 0; trial < 200; ++trial) {
    Equations equations(3);
    for (int row = 0; row < 6; ++row)
      equations.add({draw(), draw(), draw()}, draw());
    const std::vector<double> found = leastSquaresAboveZero(equations);
    const double least = squaresOf(equations, found);
    for (double a = 0; a <= 2; a += 0.25)
      for (double b = 0; b <= 2; b += 0.25)
        for (double c = 0; c <= 2; c += 0.25)
          EXPECT_LE(least, squaresOf(equations, {a, b, c}) + 1e-6);
    for (size_t i = 0; i < 3; ++i) {
      EXPECT_GE(found[i], 0);
      for (double by : {-1e-3, 1e-3}) {
        std::vector<double> other = found;
        other[i] = std::max(0.0, other[i] + by);
        EXPECT_LE(least, squaresOf(equations, other) + 1e-9);
      }
    }
  }
}

using Law = std::function<double(double step, double degree)>;

std::vector<RunCurve> curvesOf(const Law &law, const std::vector<double> &degrees, int64_t last, int64_t every) {
  std::vector<RunCurve> curves;
  for (double degree : degrees) {
    curves.emplace_back().degree = degree;
    for (int64_t step = every; step <= last; step += every)
      curves.back().points.emplace_back(step, law(double(step), degree));
  }
  return curves;
}

double reachedBy(const Law &law, double degree, double target) {
  double step = 1;
  while (law(step, degree) > target)
    ++step;
  return step;
}

/// A round of CoCoA contracts by 1 - c / m: rounds grow in a line with the workers. A degree between those that were
/// seen is told within 10 %, one of twice the most within 25 %.
TEST(Convergence, TellsARateThatFallsWithTheDegree) {
  const Law law = [](double i, double m) { return 0.2 + 2 * std::exp(-i / (20 + 10 * m)); };
  const Target target = {0.25, true};
  const Convergence fit(curvesOf(law, {1, 2, 4, 16}, 600, 5), target);
  for (double m : {1.0, 2.0, 4.0, 8.0, 16.0}) {
    const double steps = reachedBy(law, m, target.value);
    EXPECT_NEAR(fit.stepsTo(m).steps.value_or(0), steps, 0.1 * steps) << "m = " << m;
  }
  const double beyond = reachedBy(law, 32, target.value);
  EXPECT_NEAR(fit.stepsTo(32).steps.value_or(0), beyond, 0.25 * beyond);
}

/// Where steps grow faster than degrees, one below all that were seen needs fewer steps, not none.
TEST(Convergence, BelowTheLeastDegree) {
  const Law law = [](double i, double m) { return 0.2 + 2 * std::exp(-i / (3 * m * m)); };
  const Convergence fit(curvesOf(law, {4, 8, 16}, 3000, 25), {0.3, true});
  const auto one = fit.stepsTo(1).steps, two = fit.stepsTo(2).steps, four = fit.stepsTo(4).steps;
  ASSERT_TRUE(one && two && four);
  EXPECT_GT(*one, 0);
  EXPECT_LT(*one, *two);
  EXPECT_LT(*two, *four);
}

/// Batches: steps of larger ones come further, up to the noise's own size, 200 samples.
TEST(Convergence, TellsAPowerThatGrowsWithTheDegree) {
  const Law law = [](double i, double m) { return 0.3 + 2 * std::pow(1 + i / (1 + 200 / m), -0.9); };
  const Target target = {0.35, true};
  const Convergence fit(curvesOf(law, {32, 64, 256}, 1000, 10), target);
  for (double m : {32.0, 64.0, 128.0, 256.0, 1024.0}) {
    const double steps = reachedBy(law, m, target.value);
    EXPECT_NEAR(fit.stepsTo(m).steps.value_or(0), steps, 0.1 * steps) << "m = " << m;
  }
}

/// What rises to a target is told as what falls to one.
TEST(Convergence, Rises) {
  const Law falls = [](double i, double m) { return std::exp(-i / (50 * m)); };
  std::vector<RunCurve> curves = curvesOf(falls, {1, 2}, 400, 10);
  const Convergence below(curves, {0.1, true});
  for (RunCurve &curve : curves)
    for (auto &point : curve.points)
      point.second = 1 - point.second;
  const Convergence above(curves, {0.9, false});
  EXPECT_NEAR(*above.stepsTo(2).steps, *below.stepsTo(2).steps, 0.05 * *below.stepsTo(2).steps);
  EXPECT_NEAR(*above.stepsTo(1).steps, 50 * std::log(10), 15);
}

/// Noise of a hundredth: the true number of steps lies in the range, and the fit tells of the noise.
TEST(Convergence, RangeHoldsTheTruth) {
  const Law law = [](double i, double m) { return 0.4 + 1.5 * std::exp(-i / (60 + 20 * m)); };
  std::mt19937 random(7);
  std::vector<RunCurve> curves = curvesOf(law, {1, 2, 4}, 500, 10);
  for (RunCurve &curve : curves)
    for (auto &point : curve.points)
      point.second += 0.01 * (double(random() % 2001) / 1000 - 1);
  const Convergence fit(curves, {0.5, true});
  for (double m : {1.0, 2.0, 3.0, 4.0}) {
    const StepsTo steps = fit.stepsTo(m);
    const double truth = reachedBy(law, m, 0.5);
    ASSERT_TRUE(steps.steps && steps.least && steps.most);
    EXPECT_LE(*steps.least, truth * 1.03) << "m = " << m;
    EXPECT_GE(*steps.most, truth * 0.97) << "m = " << m;
  }
  for (const CurveFit &of : fit.fits()) {
    EXPECT_GT(of.r2, 0.98);
    EXPECT_GT(of.error, 0.001);
    EXPECT_LT(of.error, 0.02);
  }
}

/// A curve that has settled far above the target does not come to it.
TEST(Convergence, IsNotReached) {
  const Law law = [](double i, double) { return 0.5 + 0.5 * std::exp(-i / 20); };
  const Convergence fit(curvesOf(law, {1, 2}, 1000, 10), {0.1, true});
  EXPECT_FALSE(fit.stepsTo(1).steps);
  EXPECT_GT(fit.floor(), 0.1);
}

/// Curves of one degree say nothing of others.
TEST(Convergence, OneDegree) {
  const Law law = [](double i, double) { return std::exp(-i / 30); };
  const Convergence fit(curvesOf(law, {4}, 100, 5), {0.02, true});
  EXPECT_FALSE(fit.knowsDegrees());
  EXPECT_NEAR(fit.stepsTo(4).steps.value_or(0), 30 * std::log(50), 15);
}

/// `until` ends a run where it is met for the first time, also where the metric rises again after that.
TEST(Convergence, FirstAt) {
  EXPECT_EQ(firstAt({1, {{10, 0.9}, {20, 0.4}, {30, 0.6}}}, {0.5, true}), 20);
  EXPECT_EQ(firstAt({1, {{10, 0.9}, {20, 0.95}}}, {0.93, false}), 20);
  EXPECT_FALSE(firstAt({1, {{10, 0.9}}}, {0.5, true}));
}

} // namespace
