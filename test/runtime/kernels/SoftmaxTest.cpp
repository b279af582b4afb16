// softmax and its relatives against plain loops; pieces against the whole.
#include "runtime/kernels/Softmax.h"
#include "Values.h"
#include "runtime/kernels/Reduce.h"

namespace echelon::runtime {
namespace {

template <typename T> struct Softmax : ::testing::Test {};
TYPED_TEST_SUITE(Softmax, Types);

struct Sizes {
  int64_t outer, n, inner;
  int64_t all() const { return outer * n * inner; }
  int64_t slices() const { return outer * inner; }
};
const Sizes kSizes[] = {{1, 1, 1}, {3, 7, 1}, {2, 300, 1}, {2, 5, 3}, {1, 40, 100}, {2, 1, 9}, {2, 37, 1030}};

TYPED_TEST(Softmax, MatchesTheReference) {
  using T = TypeParam;
  for (Sizes s : kSizes) {
    auto x = values<T>(s.all(), 1);
    for (T &v : x)
      v = v * 10 + 50;
    std::vector<T> y(s.all()), expected(s.all()), lse(s.slices()), expectedLse(s.slices());
    std::vector<T> shift(s.slices()), logSum(s.slices());
    reference::softmax(expected.data(), x.data(), s.outer, s.n, s.inner);
    softmax(y.data(), x.data(), s.outer, s.n, s.inner);
    expectClose(y, expected, "softmax");
    logsumexp(lse.data(), shift.data(), logSum.data(), x.data(), s.outer, s.n, s.inner);
    reference::logsumexp(expectedLse.data(), x.data(), s.outer, s.n, s.inner);
    expectClose(lse, expectedLse, "logsumexp");
    auto inPlace = x;
    softmax(inPlace.data(), inPlace.data(), s.outer, s.n, s.inner);
    softmax(y.data(), x.data(), s.outer, s.n, s.inner);
    EXPECT_EQ(inPlace, y);
  }
}

// Whatever comes before the maximum: much smaller values, masked ones, or values so large that integers are not exact.
TYPED_TEST(Softmax, SumsFollowTheMaximum) {
  using T = TypeParam;
  const int64_t n = 1500;
  auto noise = values<T>(n, 3);
  struct Row {
    T start, rise, masked;
  };
  for (Row row : {Row{-50, 150, 0}, Row{300, -600, 0}, Row{-2e5, 1, 700}, Row{-4e6, 1, 0}, Row{3e6, -1e6, 0},
                  Row{10, 5, 1499}, Row{-1e30, 0, 3}, Row{80, 0, 0}}) {
    std::vector<T> x(n), lse(1), shift(1), logSum(1), expected(1);
    for (int64_t i = 0; i < n; ++i)
      x[i] = i < row.masked ? T(-INFINITY) : row.start + row.rise * T(i) / n + noise[i];
    logsumexp(lse.data(), shift.data(), logSum.data(), x.data(), 1, n, 1);
    reference::logsumexp(expected.data(), x.data(), 1, n, 1);
    EXPECT_NEAR(lse[0], expected[0], 2e-7 * std::max<double>(10, std::abs(expected[0]))) << row.start;
    for (T odd : {T(NAN), T(INFINITY)}) {
      x[n - 1] = odd;
      logsumexp(lse.data(), shift.data(), logSum.data(), x.data(), 1, n, 1);
      EXPECT_FALSE(std::isfinite(lse[0])) << row.start;
    }
  }
}

// The terms of the logsumexp give softmax and log_softmax as exactly at large offsets as at 0; fp32 holds such logits
// to 2^-7 at 1e5 and to 8 at 1e8, so the same numbers are taken for the reference.
TYPED_TEST(Softmax, OffsetsTakeNoDigits) {
  using T = TypeParam;
  for (double offset : {0.0, 1e4, -3e5, 5e5, 1e6, -1e8, 1e8})
    for (Sizes s : {Sizes{3, 10, 1}, Sizes{2, 700, 1}, Sizes{1, 9, 33}}) {
      auto x = values<T>(s.all(), 5);
      for (T &v : x)
        v = T(double(v) * 5 + offset);
      std::vector<T> lse(s.slices()), shift(s.slices()), logSum(s.slices());
      logsumexp(lse.data(), shift.data(), logSum.data(), x.data(), s.outer, s.n, s.inner);
      const double u = std::numeric_limits<T>::epsilon() / 2;
      for (int64_t o = 0; o < s.outer; ++o)
        for (int64_t j = 0; j < s.inner; ++j) {
          const T *slice = x.data() + o * s.n * s.inner + j;
          double top = -INFINITY, sum = 0;
          for (int64_t i = 0; i < s.n; ++i)
            top = std::max(top, double(slice[i * s.inner]));
          for (int64_t i = 0; i < s.n; ++i)
            sum += std::exp(slice[i * s.inner] - top);
          for (int64_t i = 0; i < s.n; ++i) {
            const double wanted = slice[i * s.inner] - top - std::log(sum);
            const T found = (slice[i * s.inner] - shift[o * s.inner + j]) - logSum[o * s.inner + j];
            // a block is summed in up to 16 additions a lane and 3 across; exp, the logarithm and two differences
            // follow
            EXPECT_NEAR(found, wanted, u * (24 + 3 * std::abs(wanted))) << offset;
          }
        }
    }
}

// Results that go past the cache have the bits of those that do not.
TEST(SoftmaxPastTheCache, IsTheSame) {
  const int64_t rows = 11000, n = 770, some = 1000; // 34 MB in all, 3 MB of some
  auto x = values<float>(rows * n, 4);
  std::vector<float> whole(rows * n), part(some * n);
  softmax(whole.data(), x.data(), rows, n, 1);
  for (int64_t r = 0; r < rows; r += some) {
    softmax(part.data(), x.data() + r * n, some, n, 1);
    ASSERT_TRUE(std::equal(part.begin(), part.end(), whole.begin() + r * n)) << r;
  }
}

// A slice that is masked throughout is 0, its logsumexp -inf; a partly masked one is 0 where masked.
TYPED_TEST(Softmax, MaskedSlicesAreZero) {
  using T = TypeParam;
  const T none = -INFINITY;
  for (int64_t inner : {1, 2}) {
    std::vector<T> x(3 * inner, none), y(3 * inner, T(5)), lse(inner), shift(inner), logSum(inner);
    softmax(y.data(), x.data(), 1, 3, inner);
    EXPECT_EQ(y, std::vector<T>(3 * inner, T(0)));
    logsumexp(lse.data(), shift.data(), logSum.data(), x.data(), 1, 3, inner);
    EXPECT_EQ(lse, std::vector<T>(inner, none));
    EXPECT_EQ(shift, std::vector<T>(inner, T(0)));
    EXPECT_EQ(logSum, std::vector<T>(inner, T(INFINITY))) << "exp(x - shift - log_sum) is 0";
    x[inner - 1] = T(2);
    softmax(y.data(), x.data(), 1, 3, inner);
    EXPECT_EQ(y[inner - 1], T(1));
    EXPECT_EQ(y[2 * inner - 1], T(0));
  }
}

// Three ranks that each hold four of twelve places: together they have the whole.
TYPED_TEST(Softmax, PiecesEqualTheWhole) {
  using T = TypeParam;
  for (int64_t inner : {1, 5}) {
    const int64_t parts = 3, n = 4;
    auto x = values<T>(parts * n * inner, 1);
    std::vector<T> whole(x.size()), y(x.size()), lse(inner), lseWhole(inner), shift(inner), logSum(inner);
    std::vector<T> m(inner, T(-INFINITY)), s(inner, T(0)), part(inner);
    for (int64_t p = 0; p < parts; ++p) {
      reduce_max(part.data(), &x[p * n * inner], 1, n, inner);
      for (int64_t j = 0; j < inner; ++j)
        m[j] = std::max(m[j], part[j]);
    }
    for (int64_t p = 0; p < parts; ++p) {
      local_sum_exp(part.data(), &x[p * n * inner], m.data(), 1, n, inner);
      for (int64_t j = 0; j < inner; ++j)
        s[j] += part[j];
    }
    for (int64_t p = 0; p < parts; ++p)
      softmax_finish(&y[p * n * inner], &x[p * n * inner], m.data(), s.data(), 1, n, inner);
    softmax(whole.data(), x.data(), 1, parts * n, inner);
    expectClose(y, whole, "softmax");
    logsumexp_finish(lse.data(), shift.data(), logSum.data(), m.data(), s.data(), inner);
    logsumexp(lseWhole.data(), shift.data(), logSum.data(), x.data(), 1, parts * n, inner);
    expectClose(lse, lseWhole, "logsumexp");
  }
}

} // namespace
} // namespace echelon::runtime
