// softmax, logsumexp and their parts on the device against the CPU's.
#include "runtime/cuda/Softmax.h"
#include "OnDevice.h"
#include "UnderSeeds.h"
#include "runtime/kernels/Softmax.h"
#include "test/runtime/kernels/Values.h"

namespace echelon::cuda {
namespace {

template <typename T> struct SoftmaxOnDevice : ::testing::Test {};
TYPED_TEST_SUITE(SoftmaxOnDevice, runtime::Types);

struct Sizes {
  int64_t outer, n, inner;
  int64_t all() const { return outer * n * inner; }
  int64_t slices() const { return outer * inner; }
};
// Rows for a thread, a warp and blocks, held and not, of whole packs and not; columns for one warp and several;
// nothing.
const Sizes kSizes[] = {{1, 1, 1},    {3, 7, 1}, {9, 300, 1},  {2, 1001, 1}, {2, 1028, 1}, {1, 5003, 1}, {1, 9000, 1},
                        {1, 9001, 1}, {2, 5, 3}, {1, 40, 100}, {2, 1, 9},    {2, 200, 33}, {0, 4, 1},    {2, 3, 0}};

/// Values far from 0; of the second slice all is masked, and of the third some.
template <typename T> std::vector<T> logits(Sizes s) {
  std::vector<T> x = randomValues<T>(s.all(), 1, 10, 50);
  for (int64_t i = 0; i < s.n && s.slices() > 1; ++i) {
    x[(s.inner > 1 ? 0 : s.n) + i * s.inner + (s.inner > 1 ? 1 : 0)] = -std::numeric_limits<T>::infinity();
    if (s.slices() > 2 && i % 3 == 0)
      x[(s.inner > 2 ? 0 : 2 * s.n / s.inner) + i * s.inner + (s.inner > 2 ? 2 : 0)] =
          -std::numeric_limits<T>::infinity();
  }
  return x;
}
template <typename T> std::vector<T> sumOf(const std::vector<T> &a, const std::vector<T> &b) {
  std::vector<T> sum;
  for (size_t i = 0; i < a.size(); ++i)
    sum.push_back(a[i] + b[i]);
  return sum;
}

TYPED_TEST(SoftmaxOnDevice, EqualsTheCpu) {
  using T = TypeParam;
  underSeeds([] {
    for (Sizes s : kSizes) {
      SCOPED_TRACE(std::to_string(s.outer) + " " + std::to_string(s.n) + " " + std::to_string(s.inner));
      const auto x = logits<T>(s);
      std::vector<T> y(s.all()), lse(s.slices()), shift(s.slices()), log(s.slices());
      runtime::softmax(y.data(), x.data(), s.outer, s.n, s.inner);
      runtime::logsumexp(lse.data(), shift.data(), log.data(), x.data(), s.outer, s.n, s.inner);
      const OnDevice<T> from(x), to(std::vector<T>(s.all(), T(9))), toLse(lse), toShift(lse), toLog(lse);
      softmax<T>(nullptr, to.get(), from.get(), s.outer, s.n, s.inner);
      expectNear(to.host(), y, tolerance<T>(), "softmax");
      logsumexp<T>(nullptr, toLse.get(), toShift.get(), toLog.get(), from.get(), s.outer, s.n, s.inner);
      expectNear(toLse.host(), lse, tolerance<T>(), "logsumexp");
      expectNear(sumOf(toShift.host(), toLog.host()), sumOf(shift, log), tolerance<T>(), "shift + log sum");
      softmax<T>(nullptr, from.get(), from.get(), s.outer, s.n, s.inner);
      EXPECT_EQ(from.host(), to.host()) << "in place";
    }
  });
}

TYPED_TEST(SoftmaxOnDevice, PartsEqualTheCpu) {
  using T = TypeParam;
  underSeeds([] {
    for (Sizes s : kSizes) {
      const auto x = logits<T>(s);
      std::vector<T> m(s.slices()), sums(s.slices()), y(s.all()), lse(s.slices()), shift(s.slices()), log(s.slices());
      for (int64_t i = 0; i < s.slices(); ++i)
        m[i] = i == 1 ? -std::numeric_limits<T>::infinity() : T(90);
      runtime::local_sum_exp(sums.data(), x.data(), m.data(), s.outer, s.n, s.inner);
      runtime::softmax_finish(y.data(), x.data(), m.data(), sums.data(), s.outer, s.n, s.inner);
      runtime::logsumexp_finish(lse.data(), shift.data(), log.data(), m.data(), sums.data(), s.slices());
      const OnDevice<T> from(x), to(std::vector<T>(s.all(), T(9))), onM(m), onSums(m), toLse(m), toShift(m), toLog(m);
      local_sum_exp<T>(nullptr, onSums.get(), from.get(), onM.get(), s.outer, s.n, s.inner);
      expectNear(onSums.host(), sums, tolerance<T>(), "sums");
      softmax_finish<T>(nullptr, to.get(), from.get(), onM.get(), onSums.get(), s.outer, s.n, s.inner);
      expectNear(to.host(), y, tolerance<T>(), "softmax");
      logsumexp_finish<T>(nullptr, toLse.get(), toShift.get(), toLog.get(), onM.get(), onSums.get(), s.slices());
      expectNear(toLse.host(), lse, tolerance<T>(), "logsumexp");
      expectNear(toShift.host(), shift, tolerance<T>(), "shift");
      expectNear(toLog.host(), log, tolerance<T>(), "log sum");
    }
  });
}

// Whatever comes before the maximum; what is not finite makes all of its slice not a number.
TYPED_TEST(SoftmaxOnDevice, SumsFollowTheMaximum) {
  using T = TypeParam;
  const int64_t n = 1500;
  struct Row {
    T start, rise;
    int64_t masked;
  };
  underSeeds([&] {
    for (Row row : {Row{-50, 150, 0}, Row{300, -600, 0}, Row{T(-2e5), 1, 700}, Row{10, 5, 1499}, Row{T(-1e30), 0, 3}})
      for (int64_t inner : {1, 2}) {
        auto x = randomValues<T>(n * inner, 3);
        for (int64_t i = 0; i < n * inner; ++i)
          x[i] = i < row.masked ? -std::numeric_limits<T>::infinity() : row.start + row.rise * T(i) / T(n) + x[i];
        std::vector<T> lse(inner), shift(inner), log(inner);
        for (T odd : {T(0), std::numeric_limits<T>::quiet_NaN(), std::numeric_limits<T>::infinity()}) {
          if (odd != 0)
            x.back() = odd;
          runtime::logsumexp(lse.data(), shift.data(), log.data(), x.data(), 1, n, inner);
          const OnDevice<T> from(x), to(x), toLse(lse), toShift(lse), toLog(lse);
          logsumexp<T>(nullptr, toLse.get(), toShift.get(), toLog.get(), from.get(), 1, n, inner);
          softmax<T>(nullptr, to.get(), from.get(), 1, n, inner);
          const auto got = toLse.host(), y = to.host();
          expectNear(std::vector<T>{got[0]}, std::vector<T>{lse[0]}, tolerance<T>(), "logsumexp");
          if (odd != 0) {
            EXPECT_FALSE(std::isfinite(got.back()));
            for (int64_t i = inner - 1; i < n * inner; i += inner)
              ASSERT_NE(y[i], y[i]);
          }
        }
      }
  });
}

// Stored in two bytes, computed in float: against the CPU's of the same numbers in float.
template <typename T> void compareNarrow(Sizes s) {
  const auto x = randomValues<T>(s.all(), 1, 3);
  const std::vector<float> wide(x.begin(), x.end());
  std::vector<float> y(s.all()), lse(s.slices()), shift(s.slices()), log(s.slices());
  runtime::softmax(y.data(), wide.data(), s.outer, s.n, s.inner);
  runtime::logsumexp(lse.data(), shift.data(), log.data(), wide.data(), s.outer, s.n, s.inner);
  const OnDevice<T> from(x);
  const OnDevice<float> toLse(lse), toShift(lse), toLog(lse);
  logsumexp<T>(nullptr, toLse.get(), toShift.get(), toLog.get(), from.get(), s.outer, s.n, s.inner);
  expectNear(toLse.host(), lse, 1e-5, "logsumexp");
  softmax<T>(nullptr, from.get(), from.get(), s.outer, s.n, s.inner);
  expectNear(from.host(), y, tolerance<T>(), "softmax");
}
TEST(SoftmaxOfNarrow, EqualsTheCpu) {
  underSeeds([] {
    for (Sizes s : {Sizes{5, 64, 1}, {3, 77, 1}, {2, 2048, 1}, {1, 9008, 1}, {2, 30, 40}}) {
      compareNarrow<bf16>(s);
      compareNarrow<fp16>(s);
    }
  });
}

} // namespace
} // namespace echelon::cuda
