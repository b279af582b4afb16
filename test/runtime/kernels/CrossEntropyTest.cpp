// Cross-entropy against plain loops and differences; a split vocabulary against the whole.
#include "runtime/kernels/CrossEntropy.h"
#include "Values.h"
#include "runtime/kernels/Reduce.h"

namespace echelon::runtime {
namespace {

template <typename T> struct CrossEntropy : ::testing::Test {};
TYPED_TEST_SUITE(CrossEntropy, Types);

/// Rows that each sum to `mass`.
template <typename T> std::vector<T> distribution(int64_t rows, int64_t vocab, double mass) {
  auto t = values<T>(rows * vocab, 9);
  for (int64_t r = 0; r < rows; ++r) {
    double sum = 0;
    for (int64_t i = 0; i < vocab; ++i)
      sum += t[r * vocab + i] = std::abs(t[r * vocab + i]);
    for (int64_t i = 0; i < vocab; ++i)
      t[r * vocab + i] *= mass / sum;
  }
  return t;
}

TYPED_TEST(CrossEntropy, MatchesTheReference) {
  using T = TypeParam;
  for (int64_t rows : {1, 5})
    for (int64_t vocab : {1, 10, 777}) {
      auto x = values<T>(rows * vocab, 1), target = distribution<T>(rows, vocab, 1);
      for (T &v : x)
        v = v * 5 + 30;
      auto label = labels(rows, int32_t(vocab), 2);
      std::vector<T> loss(rows), shift(rows), logSum(rows), mass(rows), expected(rows);
      cross_entropy(loss.data(), shift.data(), logSum.data(), x.data(), label.data(), rows, vocab);
      reference::cross_entropy(expected.data(), x.data(), label.data(), rows, vocab);
      expectClose(loss, expected, "loss", 2);
      cross_entropy_target(loss.data(), shift.data(), logSum.data(), mass.data(), x.data(), target.data(), rows, vocab);
      reference::cross_entropy_target(expected.data(), x.data(), target.data(), rows, vocab);
      expectClose(loss, expected, "loss of a distribution", 4);
    }
}

// Two ranks with half of the vocabulary each, sums over ranks taken by hand.
TYPED_TEST(CrossEntropy, SplitVocabularyEqualsTheWhole) {
  using T = TypeParam;
  const int64_t rows = 4, part = 6, vocab = 2 * part;
  auto x = values<T>(rows * vocab, 1), target = distribution<T>(rows, vocab, 1);
  auto label = labels(rows, vocab, 2);
  std::vector<T> piece[2], goal[2];
  for (int p = 0; p < 2; ++p)
    for (int64_t r = 0; r < rows; ++r)
      for (int64_t i = 0; i < part; ++i) {
        piece[p].push_back(x[r * vocab + p * part + i]);
        goal[p].push_back(target[r * vocab + p * part + i]);
      }
  std::vector<T> m(rows), loss(rows), logSum(rows), mass(rows), whole(rows), shift(rows), wholeLog(rows);
  reduce_max(m.data(), x.data(), rows, vocab, 1);
  for (bool distributed : {false, true}) {
    std::vector<T> sum(rows), picked(rows), weight(rows);
    for (int p = 0; p < 2; ++p) {
      std::vector<T> s(rows), k(rows), w(rows);
      if (distributed)
        cross_entropy_target_local(s.data(), k.data(), w.data(), piece[p].data(), m.data(), goal[p].data(), rows, part);
      else
        cross_entropy_local(s.data(), k.data(), piece[p].data(), m.data(), label.data(), rows, part, int32_t(p * part));
      for (int64_t r = 0; r < rows; ++r)
        sum[r] += s[r], picked[r] += k[r], weight[r] += w[r];
    }
    if (distributed) {
      cross_entropy_target_finish(loss.data(), logSum.data(), sum.data(), picked.data(), weight.data(), rows);
      cross_entropy_target(whole.data(), shift.data(), wholeLog.data(), mass.data(), x.data(), target.data(), rows,
                           vocab);
    } else {
      cross_entropy_finish(loss.data(), logSum.data(), sum.data(), picked.data(), rows);
      cross_entropy(whole.data(), shift.data(), wholeLog.data(), x.data(), label.data(), rows, vocab);
    }
    expectClose(loss, whole, "loss");
    for (int64_t r = 0; r < rows; ++r)
      m[r] += logSum[r], wholeLog[r] += shift[r];
    expectClose(m, wholeLog, "logsumexp");
    reduce_max(m.data(), x.data(), rows, vocab, 1);
  }
}

// A logit that is not finite makes the loss not finite.
TYPED_TEST(CrossEntropy, BadLogitsAreSeen) {
  using T = TypeParam;
  int32_t label = 0;
  for (T bad : {T(NAN), T(INFINITY)}) {
    std::vector<T> x = {1, 2, bad};
    T loss, shift, logSum;
    cross_entropy(&loss, &shift, &logSum, x.data(), &label, 1, 3);
    EXPECT_FALSE(std::isfinite(loss));
  }
}

} // namespace
} // namespace echelon::runtime
