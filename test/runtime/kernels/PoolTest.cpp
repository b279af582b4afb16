// Pooling: known values, ties, padding, gradients against differences.
#include "runtime/kernels/Pool.h"
#include "Values.h"
#include <cstring>

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

// The windows that have a kernel of their own and others: rows of outputs around the vector's four lanes, ties, a NaN.
TYPED_TEST(Pool, MatchesTheReference) {
  using T = TypeParam;
  std::vector<PoolShape> shapes = {{2, 1, {{9, 2, 1, 1, 1}}},
                                   {3, 2, {{7, 3, 2, 1, 1}, {8, 3, 2, 1, 1}}},
                                   {2, 2, {{9, 4, 3, 0, 2}, {11, 2, 4, 0, 0}}},
                                   {1, 3, {{4, 2, 2, 0, 0}, {5, 2, 1, 1, 0}, {7, 3, 1, 0, 1}}},
                                   {1, 4, {{3, 2, 1, 0, 0}, {3, 1, 1, 0, 0}, {4, 2, 2, 0, 0}, {6, 3, 2, 1, 1}}}};
  for (int64_t window : {2, 3})
    for (int64_t stride : {1, 2})
      for (int64_t width : {3, 6, 8, 11, 13}) {
        shapes.push_back({2, 1, {{width, window, stride, 0, 0}}});
        shapes.push_back({2, 2, {{5, window, stride, 0, 0}, {width, window, stride, 0, 0}}});
      }
  for (const PoolShape &s : shapes) {
    int64_t in = s.planes, out = s.planes;
    for (int d = 0; d < s.rank; ++d)
      in *= s.dims[d].in, out *= s.dims[d].out();
    SCOPED_TRACE(testing::Message() << "rank " << s.rank << ", last " << s.dims[s.rank - 1].in << ", window "
                                    << s.dims[s.rank - 1].window << ", stride " << s.dims[s.rank - 1].stride);
    auto x = values<T>(in, 1);
    for (T &v : x)
      v = std::round(v * 2); // ties
    std::vector<T> y(out), expected(out);
    std::vector<int32_t> index(out), places(out);
    avgpool(y.data(), x.data(), s);
    reference::avgpool(expected.data(), x.data(), s);
    expectClose(y, expected, "mean");
    x[in / 2] = NAN;
    maxpool(y.data(), index.data(), x.data(), s);
    reference::maxpool(expected.data(), places.data(), x.data(), s);
    EXPECT_EQ(index, places);
    for (int64_t o = 0; o < out; ++o)
      EXPECT_TRUE(y[o] == expected[o] || (std::isnan(y[o]) && std::isnan(expected[o]))) << o;
    maxpool<T>(expected.data(), nullptr, x.data(), s);
    EXPECT_EQ(std::memcmp(y.data(), expected.data(), out * sizeof(T)), 0);
  }
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
