// softmax and its relatives against plain loops and differences; pieces against the whole.
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
    reference::softmax(expected.data(), x.data(), s.outer, s.n, s.inner);
    softmax(y.data(), x.data(), s.outer, s.n, s.inner);
    expectClose(y, expected, "softmax");
    logsumexp(lse.data(), x.data(), s.outer, s.n, s.inner);
    reference::logsumexp(expectedLse.data(), x.data(), s.outer, s.n, s.inner);
    expectClose(lse, expectedLse, "logsumexp");
    log_softmax(y.data(), x.data(), s.outer, s.n, s.inner);
    for (int64_t i = 0; i < s.all(); ++i)
      expected[i] = x[i] - expectedLse[i / (s.n * s.inner) * s.inner + i % s.inner];
    expectClose(y, expected, "log_softmax");
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
    std::vector<T> x(n), lse(1), expected(1);
    for (int64_t i = 0; i < n; ++i)
      x[i] = i < row.masked ? T(-INFINITY) : row.start + row.rise * T(i) / n + noise[i];
    logsumexp(lse.data(), x.data(), 1, n, 1);
    reference::logsumexp(expected.data(), x.data(), 1, n, 1);
    EXPECT_NEAR(lse[0], expected[0], 2e-7 * std::max<double>(10, std::abs(expected[0]))) << row.start;
    for (T odd : {T(NAN), T(INFINITY)}) {
      x[n - 1] = odd;
      logsumexp(lse.data(), x.data(), 1, n, 1);
      EXPECT_FALSE(std::isfinite(lse[0])) << row.start;
    }
  }
}

// Results that go past the cache have the bits of those that do not.
TEST(SoftmaxPastTheCache, IsTheSame) {
  const int64_t rows = 11000, n = 770, some = 1000; // 34 MB in all, 3 MB of some
  auto x = values<float>(rows * n, 4);
  std::vector<float> whole(rows * n), part(some * n);
  for (auto function : {softmax<float>, log_softmax<float>}) {
    function(whole.data(), x.data(), rows, n, 1);
    for (int64_t r = 0; r < rows; r += some) {
      function(part.data(), x.data() + r * n, some, n, 1);
      ASSERT_TRUE(std::equal(part.begin(), part.end(), whole.begin() + r * n)) << r;
    }
  }
}

// A slice that is masked throughout is 0, its logsumexp -inf; a partly masked one is 0 where masked.
TYPED_TEST(Softmax, MaskedSlicesAreZero) {
  using T = TypeParam;
  const T none = -INFINITY;
  for (int64_t inner : {1, 2}) {
    std::vector<T> x(3 * inner, none), y(3 * inner, T(5)), lse(inner);
    softmax(y.data(), x.data(), 1, 3, inner);
    EXPECT_EQ(y, std::vector<T>(3 * inner, T(0)));
    logsumexp(lse.data(), x.data(), 1, 3, inner);
    EXPECT_EQ(lse, std::vector<T>(inner, none));
    x[inner - 1] = T(2);
    softmax(y.data(), x.data(), 1, 3, inner);
    EXPECT_EQ(y[inner - 1], T(1));
    EXPECT_EQ(y[2 * inner - 1], T(0));
  }
}

TEST(SoftmaxGradient, MatchesDifferences) {
  for (Sizes s : kSizes) {
    if (s.all() > 100)
      continue;
    auto x = values<double>(s.all(), 1), d = values<double>(s.all(), 2), dl = values<double>(s.slices(), 3);
    std::vector<double> y(s.all()), dx(s.all()), lse(s.slices());
    softmax(y.data(), x.data(), s.outer, s.n, s.inner);
    softmax_grad(dx.data(), d.data(), y.data(), s.outer, s.n, s.inner);
    expectGradient(
        x, d, dx,
        [&](const std::vector<double> &v) {
          std::vector<double> out(s.all());
          softmax(out.data(), v.data(), s.outer, s.n, s.inner);
          return out;
        },
        "softmax");
    log_softmax(y.data(), x.data(), s.outer, s.n, s.inner);
    log_softmax_grad(dx.data(), d.data(), y.data(), s.outer, s.n, s.inner);
    auto logSoftmax = [&](const std::vector<double> &v) {
      std::vector<double> out(s.all());
      log_softmax(out.data(), v.data(), s.outer, s.n, s.inner);
      return out;
    };
    expectGradient(x, d, dx, logSoftmax, "log_softmax");
    logsumexp(lse.data(), x.data(), s.outer, s.n, s.inner);
    logsumexp_grad(dx.data(), dl.data(), x.data(), lse.data(), s.outer, s.n, s.inner);
    auto sum = [&](const std::vector<double> &v) {
      std::vector<double> out(s.slices());
      logsumexp(out.data(), v.data(), s.outer, s.n, s.inner);
      return out;
    };
    expectGradient(x, dl, dx, sum, "logsumexp");
  }
}

// Three ranks that each hold four of twelve places: forward and backward equal the whole.
TYPED_TEST(Softmax, PiecesEqualTheWhole) {
  using T = TypeParam;
  for (int64_t inner : {1, 5}) {
    const int64_t parts = 3, n = 4;
    auto x = values<T>(parts * n * inner, 1), dy = values<T>(parts * n * inner, 2);
    std::vector<T> whole(x.size()), dWhole(x.size()), y(x.size()), dx(x.size()), lse(inner), lseWhole(inner);
    std::vector<T> m(inner, T(-INFINITY)), s(inner, T(0)), t(inner, T(0)), part(inner);
    for (int64_t p = 0; p < parts; ++p) {
      reduce_max(part.data(), &x[p * n * inner], 1, n, inner);
      for (int64_t j = 0; j < inner; ++j)
        m[j] = std::max(m[j], part[j]);
    }
    auto sumParts = [&](std::vector<T> &total, auto f) {
      std::fill(total.begin(), total.end(), T(0));
      for (int64_t p = 0; p < parts; ++p) {
        f(p * n * inner);
        for (int64_t j = 0; j < inner; ++j)
          total[j] += part[j];
      }
    };
    sumParts(s, [&](int64_t at) { local_sum_exp(part.data(), &x[at], m.data(), 1, n, inner); });
    for (bool log : {false, true}) {
      for (int64_t p = 0; p < parts; ++p)
        (log ? log_softmax_finish<T> : softmax_finish<T>)(&y[p * n * inner], &x[p * n * inner], m.data(), s.data(), 1,
                                                          n, inner);
      (log ? log_softmax<T> : softmax<T>)(whole.data(), x.data(), 1, parts * n, inner);
      expectClose(y, whole, "forward");
      sumParts(t, [&](int64_t at) {
        if (log)
          reduce_sum(part.data(), &dy[at], 1, n, inner);
        else
          local_sum_product(part.data(), &dy[at], &y[at], 1, n, inner);
      });
      for (int64_t p = 0; p < parts; ++p)
        (log ? log_softmax_grad_finish<T> : softmax_grad_finish<T>)(&dx[p * n * inner], &dy[p * n * inner],
                                                                    &y[p * n * inner], t.data(), 1, n, inner);
      (log ? log_softmax_grad<T> : softmax_grad<T>)(dWhole.data(), dy.data(), whole.data(), 1, parts * n, inner);
      expectClose(dx, dWhole, "backward");
    }
    logsumexp_finish(lse.data(), m.data(), s.data(), inner);
    logsumexp(lseWhole.data(), x.data(), 1, parts * n, inner);
    expectClose(lse, lseWhole, "logsumexp");
  }
}

} // namespace
} // namespace echelon::runtime
