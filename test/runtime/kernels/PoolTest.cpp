// Pooling: known values, ties, padding, gradients against differences.
#include "runtime/kernels/Pool.h"
#include "Values.h"

namespace echelon::runtime {
namespace {

template <typename T> struct Pool : ::testing::Test {};
TYPED_TEST_SUITE(Pool, Types);

TYPED_TEST(Pool, KnownValues) {
  using T = TypeParam;
  std::vector<T> x = {1, 2, 3, 4, 5, 6, 7, 8, 9, 8, 7, 6, 5, 4, 3, 2}, y(4);
  std::vector<int32_t> index(4);
  PoolShape s{1, 2, {{4, 2, 2, 0, 0}, {4, 2, 2, 0, 0}}};
  maxpool(y.data(), index.data(), x.data(), s);
  EXPECT_EQ(y, (std::vector<T>{6, 8, 9, 7}));
  EXPECT_EQ(index, (std::vector<int32_t>{5, 7, 8, 10}));
  maxpool<T>(y.data(), nullptr, x.data(), s);
  EXPECT_EQ(y, (std::vector<T>{6, 8, 9, 7}));
  avgpool(y.data(), x.data(), s);
  EXPECT_EQ(y, (std::vector<T>{3.5, 5.5, 6.5, 4.5}));
}

// Equal values: the derivative goes to the lowest index.
TYPED_TEST(Pool, TiesGoToTheLowestIndex) {
  using T = TypeParam;
  std::vector<T> x(4, T(1)), y(1), dy = {T(3)}, dx(4);
  std::vector<int32_t> index(1);
  PoolShape s{1, 2, {{2, 2, 2, 0, 0}, {2, 2, 2, 0, 0}}};
  maxpool(y.data(), index.data(), x.data(), s);
  maxpool_grad(dx.data(), dy.data(), index.data(), s);
  EXPECT_EQ(dx, (std::vector<T>{3, 0, 0, 0}));
}

// Padding is no maximum among negative values, and a zero in a mean over the whole window.
TYPED_TEST(Pool, PaddingIsNoMaximumAndAZeroOfTheMean) {
  using T = TypeParam;
  std::vector<T> x = {-5, -3, -1}, y(2);
  PoolShape s{1, 1, {{3, 2, 2, 1, 0}}};
  maxpool<T>(y.data(), nullptr, x.data(), s);
  EXPECT_EQ(y, (std::vector<T>{-5, -1}));
  avgpool(y.data(), x.data(), s);
  EXPECT_EQ(y, (std::vector<T>{-2.5, -2}));
}

TYPED_TEST(Pool, NanIsSeen) {
  using T = TypeParam;
  std::vector<T> x = {1, T(NAN), 2}, y(1);
  maxpool<T>(y.data(), nullptr, x.data(), {1, 1, {{3, 3, 1, 0, 0}}});
  EXPECT_TRUE(std::isnan(y[0]));
}

TEST(PoolGradient, MatchesDifferences) {
  const PoolShape shapes[] = {{3, 2, {{5, 3, 2, 1, 1}, {6, 2, 1, 0, 1}}},
                              {2, 3, {{3, 2, 1, 0, 0}, {3, 2, 1, 0, 0}, {4, 2, 2, 0, 0}}},
                              {1, 1, {{7, 3, 2, 0, 0}}}};
  for (const PoolShape &s : shapes) {
    int64_t in = s.planes, out = s.planes;
    for (int d = 0; d < s.rank; ++d)
      in *= s.dims[d].in, out *= s.dims[d].out();
    auto x = values<double>(in, 1), dy = values<double>(out, 2);
    std::vector<double> y(out), dx(in);
    std::vector<int32_t> index(out);
    maxpool(y.data(), index.data(), x.data(), s);
    maxpool_grad(dx.data(), dy.data(), index.data(), s);
    auto byMax = [&](const std::vector<double> &v) {
      std::vector<double> o(out);
      maxpool<double>(o.data(), nullptr, v.data(), s);
      return o;
    };
    expectGradient(x, dy, dx, byMax, "maxpool");
    avgpool_grad(dx.data(), dy.data(), s);
    auto byMean = [&](const std::vector<double> &v) {
      std::vector<double> o(out);
      avgpool(o.data(), v.data(), s);
      return o;
    };
    expectGradient(x, dy, dx, byMean, "avgpool");
  }
}

} // namespace
} // namespace echelon::runtime
