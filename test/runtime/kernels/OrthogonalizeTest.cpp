// Gram-Schmidt: unit vectors at right angles that span what they were made of, in their order.
#include "runtime/kernels/Orthogonalize.h"
#include "gtest/gtest.h"

#include <cmath>
#include <random>
#include <vector>

using namespace echelon::runtime;

namespace {
template <typename T> class Orthogonalize : public ::testing::Test {};
using Types = ::testing::Types<float, double>;
TYPED_TEST_SUITE(Orthogonalize, Types);

TYPED_TEST(Orthogonalize, VectorsAreOrthonormalInTheirOrder) {
  constexpr int64_t outer = 2, n = 50, inner = 4;
  std::mt19937 random(1);
  std::normal_distribution<> normal;
  std::vector<TypeParam> x(outer * n * inner), y(x.size());
  for (TypeParam &v : x)
    v = static_cast<TypeParam>(normal(random));
  orthogonalize(y.data(), x.data(), outer, n, inner);
  const double limit = sizeof(TypeParam) == 4 ? 1e-6 : 1e-14;
  auto product = [&](const std::vector<TypeParam> &a, const std::vector<TypeParam> &b, int64_t o, int64_t i,
                     int64_t j) {
    double sum = 0;
    for (int64_t k = 0; k < n; ++k)
      sum += double(a[(o * n + k) * inner + i]) * double(b[(o * n + k) * inner + j]);
    return sum;
  };
  for (int64_t o = 0; o < outer; ++o)
    for (int64_t i = 0; i < inner; ++i) {
      for (int64_t j = 0; j < inner; ++j)
        EXPECT_NEAR(product(y, y, o, i, j), i == j ? 1 : 0, limit);
      double within = 0; // all of x's vector i lies along the first i + 1 of y
      for (int64_t j = 0; j <= i; ++j)
        within += std::pow(product(x, y, o, i, j), 2);
      EXPECT_NEAR(within / product(x, x, o, i, i), 1, 10 * limit);
    }
  std::vector<TypeParam> inPlace = x;
  orthogonalize(inPlace.data(), inPlace.data(), outer, n, inner);
  EXPECT_EQ(inPlace, y);
}

TYPED_TEST(Orthogonalize, SmallVectorsAreNotNothing) {
  const std::vector<TypeParam> x{TypeParam(3e-20), 0, TypeParam(4e-20), TypeParam(1e-20)};
  std::vector<TypeParam> y(4);
  orthogonalize(y.data(), x.data(), 1, 2, 2); // (3, 4) and (0, 1)
  const double expected[] = {0.6, -0.8, 0.8, 0.6};
  for (int i = 0; i < 4; ++i)
    EXPECT_NEAR(y[i], expected[i], 1e-6);
}

TYPED_TEST(Orthogonalize, WhatRoundingLeavesIsNothing) {
  const auto third = TypeParam(1) / 3;
  const std::vector<TypeParam> x{1, third, 2, 0,         3,  3 * third,
                                 6, 0,     7, 7 * third, 14, 1}; // the first three along a line
  std::vector<TypeParam> y(x.size());
  orthogonalize(y.data(), x.data(), 1, 3, 4);
  for (int i = 0; i < 3; ++i) {
    EXPECT_EQ(y[i * 4 + 1], 0);
    EXPECT_EQ(y[i * 4 + 2], 0);
    EXPECT_NE(y[i * 4 + 3], 0);
  }
}

TYPED_TEST(Orthogonalize, WhatIsNothingStaysSo) {
  std::vector<TypeParam> x(6, 0), y(6, 1);
  orthogonalize(y.data(), x.data(), 1, 3, 2);
  EXPECT_EQ(y, x);
}
} // namespace
