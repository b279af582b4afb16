// Cross-entropy and its parts on the device against the CPU's.
#include "runtime/cuda/CrossEntropy.h"
#include "OnDevice.h"
#include "UnderSeeds.h"
#include "runtime/kernels/CrossEntropy.h"
#include "test/runtime/kernels/Values.h"

namespace echelon::cuda {
namespace {

using runtime::labels;

template <typename T> struct CrossEntropyOnDevice : ::testing::Test {};
TYPED_TEST_SUITE(CrossEntropyOnDevice, runtime::Types);

// Rows for warps and blocks, of whole packs and not; none.
const std::pair<int64_t, int64_t> kShapes[] = {{1, 1}, {5, 10}, {9, 300}, {3, 1030}, {3, 1032}, {2, 20003}, {0, 7}};

/// Each sums to 1; every fifth has no weight.
template <typename T> std::vector<T> distributions(int64_t rows, int64_t vocab) {
  std::vector<T> target = randomValues<T>(rows * vocab, 5);
  for (int64_t r = 0; r < rows; ++r) {
    double sum = 0;
    for (int64_t i = 0; i < vocab; ++i) {
      T &v = target[r * vocab + i];
      v = i % 5 == 4 ? T(0) : T(std::abs(v));
      sum += double(v);
    }
    for (int64_t i = 0; i < vocab; ++i)
      target[r * vocab + i] = T(double(target[r * vocab + i]) / sum);
  }
  return target;
}
template <typename T> std::vector<T> sumOf(const std::vector<T> &a, const std::vector<T> &b) {
  std::vector<T> sum;
  for (size_t i = 0; i < a.size(); ++i)
    sum.push_back(a[i] + b[i]);
  return sum;
}

TYPED_TEST(CrossEntropyOnDevice, OfLabels) {
  using T = TypeParam;
  underSeeds([] {
    for (auto [rows, vocab] : kShapes) {
      auto x = randomValues<T>(rows * vocab, 1, 10, -20);
      auto label = labels(rows, static_cast<int32_t>(vocab), 2);
      if (rows > 2) {
        label[1] = -1; // nowhere
        x[2 * vocab + 3] = -std::numeric_limits<T>::infinity();
      }
      std::vector<T> loss(rows), shift(rows), log(rows);
      runtime::cross_entropy(loss.data(), shift.data(), log.data(), x.data(), label.data(), rows, vocab);
      const OnDevice<T> from(x), toLoss(loss), toShift(loss), toLog(loss);
      const OnDevice<int32_t> onLabel(label);
      cross_entropy<T>(nullptr, toLoss.get(), toShift.get(), toLog.get(), from.get(), onLabel.get(), rows, vocab);
      std::vector<T> gotLoss = toLoss.host(), gotShift = toShift.host();
      for (int64_t r = 0; r < rows; ++r) {
        if (label[r] < 0) // then the loss is log_sum, which depends on the shift
          gotLoss[r] = loss[r];
        EXPECT_EQ(gotShift[r], *std::max_element(&x[r * vocab], &x[(r + 1) * vocab]));
      }
      expectNear(gotLoss, loss, tolerance<T>(), "loss");
      expectNear(sumOf(gotShift, toLog.host()), sumOf(shift, log), tolerance<T>(), "shift + log sum");
    }
  });
}

// Rows that are apart, as products of whole packs want them: what lies between is not read.
TYPED_TEST(CrossEntropyOnDevice, OfRowsApart) {
  using T = TypeParam;
  underSeeds([] {
    for (auto [rows, vocab] : kShapes) {
      const int64_t ld = (vocab + 63) / 64 * 64;
      const auto x = randomValues<T>(rows * vocab, 1, 10, -20);
      const auto label = labels(rows, static_cast<int32_t>(vocab), 2);
      std::vector<T> apart(rows * ld, std::numeric_limits<T>::quiet_NaN());
      for (int64_t r = 0; r < rows; ++r)
        std::copy_n(&x[r * vocab], vocab, &apart[r * ld]);
      const std::vector<T> none(rows);
      const OnDevice<T> dense(x), from(apart), loss(none), shift(none), log(none), loss2(none);
      const OnDevice<int32_t> onLabel(label);
      cross_entropy<T>(nullptr, loss.get(), shift.get(), log.get(), dense.get(), onLabel.get(), rows, vocab);
      cross_entropy<T>(nullptr, loss2.get(), shift.get(), log.get(), from.get(), onLabel.get(), rows, vocab, ld);
      expectNear(loss2.host(), loss.host(), tolerance<T>(), "loss");
    }
  });
}

TYPED_TEST(CrossEntropyOnDevice, OfDistributions) {
  using T = TypeParam;
  underSeeds([] {
    for (auto [rows, vocab] : kShapes) {
      auto x = randomValues<T>(rows * vocab, 1, 10, -20);
      const auto target = distributions<T>(rows, vocab);
      if (rows > 2)
        x[2 * vocab + 4] = -std::numeric_limits<T>::infinity(); // of no weight
      std::vector<T> loss(rows), shift(rows), log(rows), mass(rows);
      runtime::cross_entropy_target(loss.data(), shift.data(), log.data(), mass.data(), x.data(), target.data(), rows,
                                    vocab);
      const OnDevice<T> from(x), onTarget(target), toLoss(loss), toShift(loss), toLog(loss), toMass(loss);
      cross_entropy_target<T>(nullptr, toLoss.get(), toShift.get(), toLog.get(), toMass.get(), from.get(),
                              onTarget.get(), rows, vocab);
      expectNear(toLoss.host(), loss, 2 * tolerance<T>(), "loss");
      expectNear(toShift.host(), shift, tolerance<T>(), "shift");
      expectNear(toLog.host(), log, tolerance<T>(), "log sum");
      expectNear(toMass.host(), mass, tolerance<T>(), "mass");
    }
  });
}

// This rank has columns from 100 on; labels are all over the vocabulary.
TYPED_TEST(CrossEntropyOnDevice, PartsEqualTheCpu) {
  using T = TypeParam;
  underSeeds([] {
    for (auto [rows, vocab] : kShapes) {
      const auto x = randomValues<T>(rows * vocab, 1, 3), target = distributions<T>(rows, vocab);
      const auto label = labels(rows, static_cast<int32_t>(2 * vocab + 100), 2);
      const std::vector<T> shift(rows, T(7));
      std::vector<T> sum(rows), picked(rows), loss(rows), log(rows), mass(rows);
      const OnDevice<T> from(x), onTarget(target), onShift(shift), toSum(sum), toPicked(sum), toLoss(sum), toLog(sum),
          toMass(sum);
      const OnDevice<int32_t> onLabel(label);
      const auto expectAll = [&](const char *what) {
        SCOPED_TRACE(what);
        expectNear(toSum.host(), sum, tolerance<T>(), "sum");
        expectNear(toPicked.host(), picked, tolerance<T>(), "picked");
        expectNear(toLoss.host(), loss, 2 * tolerance<T>(), "loss");
        expectNear(toLog.host(), log, tolerance<T>(), "log sum");
        expectNear(toMass.host(), mass, tolerance<T>(), "mass");
      };
      runtime::cross_entropy_local(sum.data(), picked.data(), x.data(), shift.data(), label.data(), rows, vocab, 100);
      runtime::cross_entropy_finish(loss.data(), log.data(), sum.data(), picked.data(), rows);
      cross_entropy_local<T>(nullptr, toSum.get(), toPicked.get(), from.get(), onShift.get(), onLabel.get(), rows,
                             vocab, 100);
      cross_entropy_finish<T>(nullptr, toLoss.get(), toLog.get(), toSum.get(), toPicked.get(), rows);
      expectAll("labels");
      runtime::cross_entropy_target_local(sum.data(), picked.data(), mass.data(), x.data(), shift.data(), target.data(),
                                          rows, vocab);
      runtime::cross_entropy_target_finish(loss.data(), log.data(), sum.data(), picked.data(), mass.data(), rows);
      cross_entropy_target_local<T>(nullptr, toSum.get(), toPicked.get(), toMass.get(), from.get(), onShift.get(),
                                    onTarget.get(), rows, vocab);
      cross_entropy_target_finish<T>(nullptr, toLoss.get(), toLog.get(), toSum.get(), toPicked.get(), toMass.get(),
                                     rows);
      expectAll("distributions");
    }
  });
}

// A logit that is not finite makes the loss not finite, and so does a row that is masked throughout.
TYPED_TEST(CrossEntropyOnDevice, BadLogitsAreSeen) {
  using T = TypeParam;
  const int64_t rows = 3, vocab = 40;
  const T inf = std::numeric_limits<T>::infinity();
  auto x = randomValues<T>(rows * vocab, 1);
  x[5] = std::numeric_limits<T>::quiet_NaN();
  x[vocab + 6] = inf;
  std::fill_n(&x[2 * vocab], vocab, -inf);
  const std::vector<T> none(rows), target(rows * vocab, T(0.025));
  const OnDevice<T> from(x), onTarget(target), loss(none), shift(none), log(none), mass(none);
  const OnDevice<int32_t> label(std::vector<int32_t>(rows, 1));
  cross_entropy<T>(nullptr, loss.get(), shift.get(), log.get(), from.get(), label.get(), rows, vocab);
  for (T v : loss.host())
    EXPECT_FALSE(std::isfinite(v));
  cross_entropy_target<T>(nullptr, loss.get(), shift.get(), log.get(), mass.get(), from.get(), onTarget.get(), rows,
                          vocab);
  for (T v : loss.host())
    EXPECT_FALSE(std::isfinite(v));
}

// Stored in two bytes, computed in float: against the CPU's of the same numbers in float.
template <typename T> void compareNarrow(int64_t rows, int64_t vocab) {
  const auto x = randomValues<T>(rows * vocab, 1, 3), target = randomValues<T>(rows * vocab, 2, 1e-4, 1e-3);
  const std::vector<float> wide(x.begin(), x.end()), wideTarget(target.begin(), target.end());
  const auto label = labels(rows, static_cast<int32_t>(vocab), 2);
  std::vector<float> loss(rows), shift(rows), log(rows), mass(rows);
  const OnDevice<T> from(x), onTarget(target);
  const OnDevice<float> toLoss(loss), toShift(loss), toLog(loss), toMass(loss);
  const OnDevice<int32_t> onLabel(label);
  runtime::cross_entropy(loss.data(), shift.data(), log.data(), wide.data(), label.data(), rows, vocab);
  cross_entropy<T>(nullptr, toLoss.get(), toShift.get(), toLog.get(), from.get(), onLabel.get(), rows, vocab);
  expectNear(toLoss.host(), loss, 1e-5, "loss");
  runtime::cross_entropy_target(loss.data(), shift.data(), log.data(), mass.data(), wide.data(), wideTarget.data(),
                                rows, vocab);
  cross_entropy_target<T>(nullptr, toLoss.get(), toShift.get(), toLog.get(), toMass.get(), from.get(), onTarget.get(),
                          rows, vocab);
  expectNear(toLoss.host(), loss, 1e-5, "loss of distributions");
  expectNear(toMass.host(), mass, 1e-5, "mass");
}
TEST(CrossEntropyOfNarrow, EqualsTheCpu) {
  underSeeds([] {
    for (auto [rows, vocab] : {std::pair<int64_t, int64_t>{5, 64}, {3, 77}, {2, 5000}}) {
      compareNarrow<bf16>(rows, vocab);
      compareNarrow<fp16>(rows, vocab);
    }
  });
}

} // namespace
} // namespace echelon::cuda
