// How many steps a run takes to a target, from the curves of other runs at other degrees of parallelism.
//
// After X. Pan, S. Venkataraman, Z. Tai, J. Gonzalez, "Hemingway: Modeling Distributed Optimization Algorithms", 2017:
// the logarithm of what is left to the best value is linear in features of the step i and the degree m,
//
//   log |value(i, m) - floor| = a - sum over h of p_h h(i / t(m)),   u = m / least m,
//
// h being log(1 + i), sqrt(i) and i, so that curves which fall by powers and curves which fall by rates are among them.
// The p are at least 0 (non-negative least squares), so that no curve rises again. Degrees differ by the steps that
// they need for the same, t(m): 1 + s (u - 1) where more are needed, as of the local solvers of that paper, or q + (1 -
// q) / u where fewer are, as of larger batches (S. McCandlish, J. Kaplan, D. Amodei, "An Empirical Model of Large-Batch
// Training", 2018). The floor, which lies beyond all that was seen, and s or q are those under which the fit is best.
//
// A curve is the best value so far: what `until` looks for is its first step at the target. Errors count by their
// distance from the target: near it in the value's own unit, far from it by their part of the way.
#pragma once
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace echelon::planner {

/// What a run came to.
struct RunCurve {
  double degree = 1;
  std::vector<std::pair<int64_t, double>> points; ///< step, value; ascending
};

struct Target {
  double value = 0;
  bool isBelow = true; ///< the value is to fall to it, else to rise

  bool isMetBy(double measured) const { return isBelow ? measured <= value : measured >= value; }
};

/// How well the fit tells a curve.
struct CurveFit {
  double r2 = 0;    ///< of the best value so far
  double error = 0; ///< root of the mean square, each point weighed by how near it is to the target
};

/// Steps; nothing where it is not reached.
struct StepsTo {
  std::optional<double> steps, least, most;
};

class Convergence {
public:
  /// Wanted: each curve has kLeastPoints points or more, whose values are not all one.
  static constexpr size_t kLeastPoints = 5;
  Convergence(std::vector<RunCurve> curves, Target target);

  /// The value that the fit has after a step.
  double value(double step, double degree) const;
  /// The range: where the fit is off by what it is off near the target, or lacks one of the curves.
  StepsTo stepsTo(double degree) const;
  const std::vector<CurveFit> &fits() const { return ofCurves; }
  double floor() const { return best.floor; }
  /// Whether degrees differ, so that others can be told at all.
  bool knowsDegrees() const { return most > least; }
  double leastDegree() const { return least; }
  double mostDegree() const { return most; }
  int64_t lastStep() const { return last; } ///< of the longest curve

private:
  struct Model {
    double floor = 0;
    double slope = 0;      ///< s; below 0: q is 1 / (1 - slope)
    std::vector<double> x; ///< of the features
    double squares = 0;    ///< of its errors, weighed
  };
  std::vector<double> featuresOf(double step, double degree, double slope) const;
  Model fitted(double part, double slope, const RunCurve *leftOut) const;
  Model bestOf(const RunCurve *leftOut) const;
  double valueOf(const Model &model, double step, double degree) const;
  std::optional<double> reaches(const Model &model, double degree, double value) const;
  double weightAt(double value) const;

  std::vector<RunCurve> curves; ///< of the best values so far
  Target target;
  double least = 1, most = 1, scale = 1, first = 0, extreme = 0;
  int64_t last = 1;
  Model best;
  std::vector<Model> without; ///< one of the curves each
  double off = 0;             ///< by how much the best is, near the target
  std::vector<CurveFit> ofCurves;
};

/// The first step at which a curve is at the target.
std::optional<int64_t> firstAt(const RunCurve &curve, const Target &target);

} // namespace echelon::planner
