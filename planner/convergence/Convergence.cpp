#include "planner/convergence/Convergence.h"

#include "planner/convergence/LeastSquares.h"

#include <algorithm>
#include <cmath>

namespace echelon::planner {

namespace {
constexpr size_t kFree = 4;    // a and b, each as what it is above 0 less what it is below
constexpr size_t kShapes = 3;  // h
constexpr double kNear = 0.1;  // of the way to the target: from there on errors count in the value's unit
constexpr double kEnd = 1e9;   // steps: what takes more is not reached
constexpr double kTiny = 1e-9; // of the way: what is left to a floor at least

Curve bestSoFar(Curve curve, bool isBelow) {
  for (size_t i = 1; i < curve.points.size(); ++i) {
    double &value = curve.points[i].second;
    const double before = curve.points[i - 1].second;
    value = isBelow ? std::min(value, before) : std::max(value, before);
  }
  return curve;
}
} // namespace

std::optional<int64_t> firstAt(const Curve &curve, const Target &target) {
  for (const auto &[step, value] : curve.points)
    if (target.isMetBy(value))
      return step;
  return std::nullopt;
}

Convergence::Convergence(std::vector<Curve> of, Target to) : target(to) {
  least = most = of.front().degree;
  first = extreme = of.front().points.front().second;
  for (const Curve &curve : of) {
    curves.push_back(bestSoFar(curve, target.isBelow));
    least = std::min(least, curve.degree);
    most = std::max(most, curve.degree);
    last = std::max(last, curve.points.back().first);
    const double begins = curves.back().points.front().second, ends = curves.back().points.back().second;
    first = target.isBelow ? std::max(first, begins) : std::min(first, begins);
    extreme = target.isBelow ? std::min(extreme, ends) : std::max(extreme, ends);
  }
  const double way = std::max(std::abs(first - target.value), std::abs(first - extreme));
  scale = kNear * way;
  best = bestOf(nullptr);
  if (curves.size() > 2)
    for (const Curve &curve : curves)
      without.push_back(bestOf(&curve));
  double squares = 0, weights = 0;
  for (const Curve &curve : curves) {
    double mean = 0, ofMean = 0, ofFit = 0, weighed = 0, all = 0;
    for (const auto &point : curve.points)
      mean += point.second / double(curve.points.size());
    for (const auto &[step, value] : curve.points) {
      const double error = value - valueOf(best, double(step), curve.degree), weight = weightAt(value);
      ofMean += (value - mean) * (value - mean);
      ofFit += error * error;
      weighed += weight * error * error;
      all += weight;
    }
    ofCurves.push_back({ofMean > 0 ? 1 - ofFit / ofMean : 0, std::sqrt(weighed / all)});
    squares += weighed;
    weights += all;
  }
  off = std::sqrt(squares / weights);
}

double Convergence::weightAt(double value) const {
  const double far = (value - target.value) / scale;
  return 1 / (1 + far * far);
}

std::vector<double> Convergence::featuresOf(double step, double degree) const {
  const double slow = least / degree, fast = 1 - slow;
  const double part = step / double(last);
  const double shapes[kShapes] = {std::log1p(step), std::sqrt(part), part};
  std::vector<double> row = {1, -1, fast, -fast};
  for (double shape : shapes) {
    row.push_back(-shape * slow);
    row.push_back(-shape * fast);
  }
  return row;
}

Convergence::Model Convergence::fitted(double floor, const Curve *leftOut) const {
  Equations equations(kFree + 2 * kShapes);
  for (const Curve &curve : curves) {
    if (&curve == leftOut)
      continue;
    for (const auto &[step, value] : curve.points) {
      const double left = std::abs(value - floor); // an error of the logarithm is one of the value by what is left
      const double weight = left * std::sqrt(weightAt(value) / double(curve.points.size()));
      equations.add(featuresOf(double(step), curve.degree), std::log(left), weight);
    }
  }
  Model model;
  model.floor = floor;
  model.x = leastSquaresAboveZero(equations);
  for (const Curve &curve : curves)
    if (&curve != leftOut)
      for (const auto &[step, value] : curve.points) {
        const double error = value - valueOf(model, double(step), curve.degree);
        model.squares += weightAt(value) * error * error / double(curve.points.size());
      }
  return model;
}

/// Over floors that lie beyond the best value by parts of the way to it.
Convergence::Model Convergence::bestOf(const Curve *leftOut) const {
  const double way = std::max(std::abs(first - extreme), 1e-12);
  const bool isAboveZero = std::min(first, extreme) >= 0;
  std::optional<Model> found;
  for (double part : {0.003, 0.01, 0.02, 0.04, 0.07, 0.1, 0.15, 0.2, 0.3, 0.45, 0.7, 1.0}) {
    double floor = target.isBelow ? extreme - part * way : extreme + part * way;
    if (target.isBelow && isAboveZero)
      floor = std::max(floor, 0.0);
    if (std::abs(extreme - floor) < kTiny * way)
      continue;
    Model model = fitted(floor, leftOut);
    if (!found || model.squares < found->squares)
      found = std::move(model);
  }
  return found ? *found : fitted(target.isBelow ? extreme - kTiny * way : extreme + kTiny * way, leftOut);
}

double Convergence::valueOf(const Model &model, double step, double degree) const {
  const std::vector<double> row = featuresOf(step, degree);
  double left = 0;
  for (size_t i = 0; i < row.size(); ++i)
    left += row[i] * model.x[i];
  return model.floor + (target.isBelow ? 1 : -1) * std::exp(left);
}

double Convergence::value(double step, double degree) const { return valueOf(best, step, degree); }

std::optional<double> Convergence::reaches(const Model &model, double degree, double wanted) const {
  const Target to = {wanted, target.isBelow};
  if (!to.isMetBy(valueOf(model, kEnd, degree)))
    return std::nullopt;
  double before = 0, after = kEnd;
  for (int i = 0; i < 100 && after - before > 1e-3; ++i) {
    const double middle = (before + after) / 2;
    (to.isMetBy(valueOf(model, middle, degree)) ? after : before) = middle;
  }
  return after;
}

StepsTo Convergence::stepsTo(double degree) const {
  StepsTo steps;
  steps.steps = reaches(best, degree, target.value);
  const double away = target.isBelow ? off : -off;
  steps.least = reaches(best, degree, target.value + away);
  steps.most = reaches(best, degree, target.value - away);
  for (const Model &model : without) {
    const std::optional<double> other = reaches(model, degree, target.value);
    if (other && (!steps.least || *other < *steps.least))
      steps.least = other;
    if (!other || (steps.most && *other > *steps.most))
      steps.most = other;
  }
  return steps;
}

} // namespace echelon::planner
