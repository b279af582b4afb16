// Inputs at the edges.
#include "test/edges/Case.h"

#include <algorithm>
#include <random>

namespace echelon::edges {

std::vector<double> asFloats(std::vector<double> values) {
  for (double &v : values)
    v = float(v);
  return values;
}

std::vector<double> ordinary(int64_t count, unsigned seed, double scale, double offset) {
  std::mt19937 random(seed);
  std::normal_distribution<> normal;
  std::vector<double> values(count);
  for (double &v : values)
    v = offset + scale * normal(random);
  return asFloats(values);
}

std::vector<double> integers(int64_t count, int64_t below, unsigned seed) {
  std::mt19937 random(seed);
  std::vector<double> values(count);
  for (double &v : values)
    v = double(random() % below);
  return values;
}

std::vector<double> edgeRows(int64_t rows, int64_t n, unsigned seed, double largest) {
  std::mt19937 random(seed);
  std::normal_distribution<> normal;
  const double scales[] = {1, 1e-3, 1e-30, 1e30, 1e19, 1e-19, 1e-40};
  std::vector<std::function<double(int64_t)>> kinds;
  for (double offset : {1e4, -1e6, 1e8}) // a deviation below half a unit of fp32 is none: then rows are constant
    for (double deviation : {1.0, 1e-3})
      kinds.push_back([=, &random, &normal](int64_t) { return offset + deviation * normal(random); });
  for (double scale : scales)
    if (scale * 5 <= largest)
      kinds.push_back([=, &random, &normal](int64_t) { return scale * normal(random); });
  for (double constant : {0.0, 1.0, 1e8, -12345.678})
    kinds.push_back([=](int64_t) { return constant; });
  kinds.push_back([](int64_t i) { return i % 2 ? 2.0 : 1.0; });                  // ties
  kinds.push_back([](int64_t i) { return i % 2 ? -0.0 : 0.0; });                 // of zeros
  kinds.push_back([=](int64_t i) { return i == n / 2 ? 1e6 : 1e-6 * (i + 1); }); // one above all
  kinds.push_back([=](int64_t i) { return (i % 2 ? -1 : 1) * 1e4 + i; });        // cancels
  std::vector<double> values;
  for (int64_t row = 0; row < rows; ++row)
    for (int64_t i = 0; i < n; ++i)
      values.push_back(kinds[row % kinds.size()](i));
  return asFloats(values);
}

} // namespace echelon::edges
