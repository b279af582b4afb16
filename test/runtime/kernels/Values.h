// Made-up inputs and comparisons for the kernels' tests.
#pragma once
#include <algorithm>
#include <cmath>
#include <cstdint>
#include <gtest/gtest.h>
#include <random>
#include <vector>

namespace echelon::runtime {

using Types = ::testing::Types<float, double>;

/// n values, normal, the same for the same seed.
template <typename T> std::vector<T> values(int64_t n, int seed) {
  std::mt19937 random(seed);
  std::normal_distribution<double> normal;
  std::vector<T> v(n);
  for (T &x : v)
    x = static_cast<T>(normal(random));
  return v;
}

inline std::vector<int32_t> labels(int64_t n, int32_t below, int seed) {
  std::mt19937 random(seed);
  std::vector<int32_t> v(n);
  for (int32_t &x : v)
    x = static_cast<int32_t>(random() % below);
  return v;
}

/// How far apart rounding may put two ways to compute values of size 1.
template <typename T> double tolerance() { return sizeof(T) == 4 ? 1e-5 : 1e-12; }

/// Every element equal, up to `slack` roundings of the largest expected value.
template <typename T>
void expectClose(const std::vector<T> &actual, const std::vector<T> &expected, const char *what, double slack = 1) {
  ASSERT_EQ(actual.size(), expected.size()) << what;
  double scale = 1;
  for (T x : expected)
    if (std::isfinite(x))
      scale = std::max(scale, std::abs(double(x)));
  for (size_t i = 0; i < actual.size(); ++i) {
    if (actual[i] == expected[i])
      continue;
    ASSERT_LE(std::abs(double(actual[i]) - double(expected[i])), slack * tolerance<T>() * scale)
        << what << "[" << i << "]: " << actual[i] << " and " << expected[i];
  }
}

/// Holds a gradient against central differences of sum(f(x) * weight), f computed in double. f fills `out` from x.
template <typename F>
void expectGradient(std::vector<double> x, const std::vector<double> &weight, const std::vector<double> &gradient, F f,
                    const char *what) {
  ASSERT_EQ(x.size(), gradient.size()) << what;
  auto total = [&] {
    std::vector<double> out = f(x);
    double sum = 0;
    for (size_t i = 0; i < out.size(); ++i)
      sum += out[i] * weight[i];
    return sum;
  };
  const double h = 1e-5;
  for (size_t i = 0; i < x.size(); ++i) {
    double kept = x[i];
    x[i] = kept + h;
    double above = total();
    x[i] = kept - h;
    double below = total();
    x[i] = kept;
    double expected = (above - below) / (2 * h);
    ASSERT_NEAR(gradient[i], expected, 1e-7 * std::max(1.0, std::abs(expected))) << what << "[" << i << "]";
  }
}

} // namespace echelon::runtime
