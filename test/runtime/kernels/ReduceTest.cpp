// Reductions against plain loops; their accuracy, repetition, ties and NaN.
#include "runtime/kernels/Reduce.h"
#include "Values.h"
#include "runtime/kernels/LongSum.h"

namespace echelon::runtime {
namespace {

template <typename T> struct Reduce : ::testing::Test {};
TYPED_TEST_SUITE(Reduce, Types);

struct Sizes {
  int64_t outer, n, inner;
};
const Sizes kSizes[] = {{1, 1, 1}, {3, 7, 1}, {2, 1000, 1}, {2, 5, 3}, {1, 100, 300}, {3, 33, 17}, {2, 1, 9}};

TYPED_TEST(Reduce, SumsMatchTheReference) {
  using T = TypeParam;
  for (Sizes s : kSizes) {
    auto x = values<T>(s.outer * s.n * s.inner, 1);
    std::vector<T> y(s.outer * s.inner, T(3)), expected(y.size());
    reduce_sum(y.data(), x.data(), s.outer, s.n, s.inner);
    reference::reduce_sum(expected.data(), x.data(), s.outer, s.n, s.inner);
    expectClose(y, expected, "sum");
    reduce_sum(y.data(), x.data(), s.outer, s.n, s.inner, true);
    for (T &v : expected)
      v *= 2;
    expectClose(y, expected, "accumulated sum");
  }
}

TYPED_TEST(Reduce, ExtremesMatchTheReference) {
  using T = TypeParam;
  for (Sizes s : kSizes) {
    auto x = values<T>(s.outer * s.n * s.inner, 1);
    for (T &v : x)
      v = std::round(v * 4); // many ties
    std::vector<T> value(s.outer * s.inner), expected(value.size()), plain(value.size());
    std::vector<int32_t> index(value.size()), at(value.size()), only(value.size());
    max_with_index(value.data(), index.data(), x.data(), s.outer, s.n, s.inner, 100);
    reference::max_with_index(expected.data(), at.data(), x.data(), s.outer, s.n, s.inner, 100);
    reduce_max(plain.data(), x.data(), s.outer, s.n, s.inner);
    argmax(only.data(), x.data(), s.outer, s.n, s.inner);
    EXPECT_EQ(value, expected);
    EXPECT_EQ(plain, expected);
    EXPECT_EQ(index, at);
    for (size_t i = 0; i < only.size(); ++i)
      EXPECT_EQ(only[i] + 100, at[i]);
    reference::min_with_index(expected.data(), at.data(), x.data(), s.outer, s.n, s.inner, 0);
    reduce_min(plain.data(), x.data(), s.outer, s.n, s.inner);
    EXPECT_EQ(plain, expected);
  }
}

// A NaN anywhere is the maximum and the minimum, and its place is the place.
TYPED_TEST(Reduce, NanWins) {
  using T = TypeParam;
  for (int64_t inner : {1, 3})
    for (int64_t n : {2, 9, 40})
      for (int64_t place = 0; place < n; ++place) {
        auto x = values<T>(n * inner, 1);
        for (int64_t j = 0; j < inner; ++j)
          x[place * inner + j] = NAN;
        std::vector<T> y(inner);
        std::vector<int32_t> index(inner);
        reduce_max(y.data(), x.data(), 1, n, inner);
        EXPECT_TRUE(std::isnan(y[inner - 1]));
        reduce_min(y.data(), x.data(), 1, n, inner);
        EXPECT_TRUE(std::isnan(y[inner - 1]));
        argmax(index.data(), x.data(), 1, n, inner);
        EXPECT_EQ(index[inner - 1], place);
      }
}

// An axis in three pieces gives the same place as the whole axis.
TYPED_TEST(Reduce, PiecesCombine) {
  using T = TypeParam;
  const int64_t parts = 3, n = 4, inner = 5;
  auto x = values<T>(parts * n * inner, 2);
  for (T &v : x)
    v = std::round(v);
  std::vector<T> found(parts * 2 * inner), expected(inner);
  std::vector<int32_t> places(inner), index(inner), at(inner);
  for (int64_t p = 0; p < parts; ++p) {
    max_with_index(&found[2 * p * inner], places.data(), &x[p * n * inner], 1, n, inner, int32_t(p * n));
    std::copy(places.begin(), places.end(), &found[(2 * p + 1) * inner]);
  }
  place_of_largest(index.data(), found.data(), parts, inner);
  reference::max_with_index(expected.data(), at.data(), x.data(), 1, parts * n, inner, 0);
  EXPECT_EQ(index, at);
}

// A million equal values: a running sum in float would be off by percents.
TEST(ReduceAccuracy, LongSumsStayExact) {
  const int64_t n = 1 << 20;
  std::vector<float> x(n * 2, 0.1f), y(2);
  reduce_sum(y.data(), x.data(), 2, n, 1);
  EXPECT_NEAR(y[0] / (double(0.1f) * n), 1, 1e-6);
  reduce_sum(y.data(), x.data(), 1, n, 2);
  EXPECT_NEAR(y[1] / (double(0.1f) * n), 1, 1e-6);
}

// Row after row into floats: blocks of 32 values, whose error is below 31 roundings, and the blocks in double.
TEST(ReduceAccuracy, LongSumsOfRowsStayExact) {
  const int64_t rows = 1 << 20;
  const float of[] = {0.1f, 0.7f, 3.14159f};
  for (int64_t values : {1, 2, 64}) {
    float place[3] = {1e6f, 0, -1};
    const float before[3] = {place[0], place[1], place[2]};
    LongSum total(place, 3, values, LongSum::FromPlace);
    for (int64_t i = 0; i < rows; ++i) {
      for (int j = 0; j < 3; ++j)
        place[j] += of[j];
      if ((i + 1) % values == 0)
        total.row();
    }
    total.finish();
    for (int j = 0; j < 3; ++j) {
      const double wanted = double(before[j]) + double(of[j]) * rows, bound = std::max<double>(32, values) * 0x1p-24;
      EXPECT_NEAR(place[j] / wanted, 1, bound) << values;
    }
  }
  float place[2] = {5, 6};
  LongSum none(place, 2);
  none.finish();
  EXPECT_EQ(place[0] + place[1], 0);
}

TEST(ReduceIntegers, AreExact) {
  std::vector<int32_t> x = {3, -1, 7, 7, 0, 2}, y(2);
  reduce_sum(y.data(), x.data(), 2, 3, 1);
  EXPECT_EQ(y, (std::vector<int32_t>{9, 9}));
  reduce_max(y.data(), x.data(), 1, 3, 2);
  EXPECT_EQ(y, (std::vector<int32_t>{7, 7}));
  argmax(y.data(), x.data(), 1, 6, 1);
  EXPECT_EQ(y[0], 2);
  reduce_min(y.data(), x.data(), 1, 0, 1);
  EXPECT_EQ(y[0], std::numeric_limits<int32_t>::max());
}

// Infinite terms give an infinite sum, opposite ones NaN.
TYPED_TEST(Reduce, SumsSeeInfinity) {
  using T = TypeParam;
  std::vector<T> x(600, T(1)), y(1);
  x[5] = INFINITY;
  reduce_sum(y.data(), x.data(), 1, 600, 1);
  EXPECT_EQ(y[0], T(INFINITY));
  x[500] = -INFINITY;
  reduce_sum(y.data(), x.data(), 1, 600, 1);
  EXPECT_TRUE(std::isnan(y[0]));
}

} // namespace
} // namespace echelon::runtime
