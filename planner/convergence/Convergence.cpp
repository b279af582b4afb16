#include "planner/convergence/Convergence.h"

#include "planner/convergence/LeastSquares.h"

#include <algorithm>
#include <cmath>

namespace echelon::planner {

namespace {
constexpr size_t kFeatures = 5; // a above and below 0, and h
constexpr double kNear = 0.1;   // of the way to the target: from there on errors count in the value's unit
constexpr double kEnd = 1e9;    // steps: what takes more is not reached
constexpr double kTiny = 1e-9;  // of the best value: what is left to a floor at least

/// Steps of a degree for those of the least one. Below that one, a degree is taken to need its own part of the steps at
/// least: a steeper line would come to 0.
double stretch(double beyond, double slope) {
  if (slope >= 0)
    return 1 + (beyond < 0 ? std::min(slope, 1.0) : slope) * beyond;
  const double q = 1 / (1 - slope);
  return q + (1 - q) / (1 + beyond);
}

RunCurve bestSoFar(RunCurve curve, bool isBelow) {
  for (size_t i = 1; i < curve.points.size(); ++i) {
    double &value = curve.points[i].second;
    const double before = curve.points[i - 1].second;
    value = isBelow ? std::min(value, before) : std::max(value, before);
  }
  return curve;
}
} // namespace

std::optional<int64_t> firstAt(const RunCurve &curve, const Target &target) {
  for (const auto &[step, value] : curve.points)
    if (target.isMetBy(value))
      return step;
  return std::nullopt;
}

Convergence::Convergence(std::vector<RunCurve> of, Target to) : target(to) {
  least = most = of.front().degree;
  first = extreme = of.front().points.front().second;
  for (const RunCurve &curve : of) {
    curves.push_back(bestSoFar(curve, target.isBelow));
    least = std::min(least, curve.degree);
    most = std::max(most, curve.degree);
    last = std::max(last, curve.points.back().first);
    const double begins = curves.back().points.front().second, ends = curves.back().points.back().second;
    first = target.isBelow ? std::max(first, begins) : std::min(first, begins);
    extreme = target.isBelow ? std::min(extreme, ends) : std::max(extreme, ends);
  }
  const double way = std::max(std::abs(first - target.value), std::abs(first - extreme));
  scale = kNear * std::max(way, 1e-12); // of curves that begin at the target and come no further
  best = bestOf(nullptr);
  if (curves.size() > 2)
    for (const RunCurve &curve : curves)
      without.push_back(bestOf(&curve));
  double squares = 0, weights = 0;
  for (const RunCurve &curve : curves) {
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

std::vector<double> Convergence::featuresOf(double step, double degree, double slope) const {
  const double own = step / stretch(degree / least - 1, slope), part = own / double(last);
  return {1, -1, -std::log1p(own), -std::sqrt(part), -part};
}

/// `part`: of the way, by which the floor lies beyond the best value.
Convergence::Model Convergence::fitted(double part, double slope, const RunCurve *leftOut) const {
  const double way = std::max(std::abs(first - extreme), 1e-12);
  Model model;
  model.slope = slope;
  model.floor = target.isBelow ? extreme - part * way : extreme + part * way;
  if (target.isBelow && std::min(first, extreme) > 0)
    model.floor = std::clamp(model.floor, 0.0, extreme * (1 - kTiny));
  Equations equations(kFeatures);
  for (const RunCurve &curve : curves) {
    if (&curve == leftOut)
      continue;
    for (const auto &[step, value] : curve.points) {
      const double left =
          std::abs(value - model.floor); // an error of the logarithm is one of the value by what is left
      const double weight = left * std::sqrt(weightAt(value) / double(curve.points.size()));
      equations.add(featuresOf(double(step), curve.degree, slope), std::log(left), weight);
    }
  }
  model.x = leastSquaresAboveZero(equations);
  for (const RunCurve &curve : curves)
    if (&curve != leftOut)
      for (const auto &[step, value] : curve.points) {
        const double error = value - valueOf(model, double(step), curve.degree);
        model.squares += weightAt(value) * error * error / double(curve.points.size());
      }
  return model;
}

/// Over a grid of floors and slopes, then nearer and nearer to the best of it, in turns.
Convergence::Model Convergence::bestOf(const RunCurve *leftOut) const {
  double least = 0, most = 0;
  for (const RunCurve &curve : curves)
    if (&curve != leftOut) {
      least = least == 0 ? curve.degree : std::min(least, curve.degree);
      most = std::max(most, curve.degree);
    }
  const std::vector<double> parts = {0.003, 0.01, 0.03, 0.06, 0.1, 0.2, 0.4, 0.7, 1.0};
  std::vector<double> slopes = {0};
  if (most > least)
    for (double slope : {0.003, 0.01, 0.03, 0.1, 0.3, 1.0, 3.0, 10.0, 30.0})
      slopes.insert(slopes.end(), {slope, -slope});
  Model found;
  double ofPart = 0, ofSlope = 0;
  bool isFirst = true;
  auto ask = [&](double part, double slope) {
    Model model = fitted(part, slope, leftOut);
    if (!isFirst && !(model.squares < found.squares))
      return;
    isFirst = false;
    found = std::move(model);
    ofPart = part;
    ofSlope = slope;
  };
  for (double part : parts)
    for (double slope : slopes)
      ask(part, slope);
  for (double factor = 1.8; factor > 1.01; factor = std::sqrt(factor))
    for (double by : {factor, 1 / factor}) {
      ask(ofPart * by, ofSlope);
      if (ofSlope != 0)
        ask(ofPart, ofSlope * by);
    }
  return found;
}

double Convergence::valueOf(const Model &model, double step, double degree) const {
  const std::vector<double> row = featuresOf(step, degree, model.slope);
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
