// Cross-entropy over rows: maximum and sum of exponentials in one pass over memory, the label's logit, finish.
#include "runtime/kernels/CrossEntropy.h"
#include "runtime/kernels/cpu/ExpSums.h"
#include <algorithm>

namespace echelon::runtime {

using detail::every, detail::Vector;

template <typename T>
void cross_entropy_local(T *sum, T *picked, const T *x, const T *shift, const int32_t *labels, int64_t rows,
                         int64_t vocab, int32_t offset) {
  for (int64_t r = 0; r < rows; ++r) {
    const T *row = x + r * vocab;
    sum[r] = detail::exp_sum(row, vocab, shift[r]);
    int64_t at = int64_t(labels[r]) - offset;
    picked[r] = at >= 0 && at < vocab ? row[at] - shift[r] : T(0);
  }
}

template <typename T> void cross_entropy_finish(T *loss, T *log_sum, const T *sum, const T *picked, int64_t rows) {
  for (int64_t r = 0; r < rows; ++r) {
    log_sum[r] = math::log(sum[r]);
    loss[r] = log_sum[r] - picked[r];
  }
}

template <typename T>
void cross_entropy(T *loss, T *shift, T *log_sum, const T *x, const int32_t *labels, int64_t rows, int64_t vocab) {
  for (int64_t r = 0; r < rows; ++r) {
    const T *row = x + r * vocab;
    auto [near, sum] = detail::shifted_exp_sum(row, vocab);
    T picked = labels[r] >= 0 && labels[r] < vocab ? row[labels[r]] - near : T(0);
    shift[r] = near;
    cross_entropy_finish(loss + r, log_sum + r, &sum, &picked, 1);
  }
}

template <typename T>
void cross_entropy_target_local(T *sum, T *picked, T *mass, const T *x, const T *shift, const T *target, int64_t rows,
                                int64_t vocab) {
  for (int64_t r = 0; r < rows; ++r) {
    const T *row = x + r * vocab, *t = target + r * vocab;
    sum[r] = detail::exp_sum(row, vocab, shift[r]);
    const Vector<T> s = every(shift[r]), none = {};
    picked[r] = static_cast<T>(detail::sum_of_vectors<T>(vocab, [&](auto at, int64_t i) {
      Vector<T> weight = at.load(t + i);
      return weight == none ? none : weight * (at.load(row + i) - s); // -inf of no weight counts nothing
    }));
    mass[r] = static_cast<T>(detail::sum_of(t, vocab));
  }
}

template <typename T>
void cross_entropy_target_finish(T *loss, T *log_sum, const T *sum, const T *picked, const T *mass, int64_t rows) {
  for (int64_t r = 0; r < rows; ++r) {
    log_sum[r] = math::log(sum[r]);
    loss[r] = mass[r] * log_sum[r] - picked[r];
  }
}

template <typename T>
void cross_entropy_target(T *loss, T *shift, T *log_sum, T *mass, const T *x, const T *target, int64_t rows,
                          int64_t vocab) {
  for (int64_t r = 0; r < rows; ++r) {
    T sum, picked;
    shift[r] = detail::largest_number(x + r * vocab, vocab);
    cross_entropy_target_local(&sum, &picked, mass + r, x + r * vocab, shift + r, target + r * vocab, 1, vocab);
    cross_entropy_target_finish(loss + r, log_sum + r, &sum, &picked, mass + r, 1);
  }
}

namespace reference {
template <typename T> double logSumExp(const T *x, int64_t n) {
  double m = *std::max_element(x, x + n), sum = 0;
  for (int64_t i = 0; i < n; ++i)
    sum += std::exp(x[i] - m);
  return m + std::log(sum);
}
template <typename T> void cross_entropy(T *loss, const T *x, const int32_t *labels, int64_t rows, int64_t vocab) {
  for (int64_t r = 0; r < rows; ++r)
    loss[r] = static_cast<T>(logSumExp(x + r * vocab, vocab) - x[r * vocab + labels[r]]);
}
template <typename T> void cross_entropy_target(T *loss, const T *x, const T *target, int64_t rows, int64_t vocab) {
  for (int64_t r = 0; r < rows; ++r) {
    double lse = logSumExp(x + r * vocab, vocab), sum = 0;
    for (int64_t i = 0; i < vocab; ++i)
      sum += target[r * vocab + i] * (lse - x[r * vocab + i]);
    loss[r] = static_cast<T>(sum);
  }
}
} // namespace reference

#define INSTANTIATE(T)                                                                                                 \
  template void cross_entropy<T>(T *, T *, T *, const T *, const int32_t *, int64_t, int64_t);                         \
  template void cross_entropy_target<T>(T *, T *, T *, T *, const T *, const T *, int64_t, int64_t);                   \
  template void cross_entropy_local<T>(T *, T *, const T *, const T *, const int32_t *, int64_t, int64_t, int32_t);    \
  template void cross_entropy_finish<T>(T *, T *, const T *, const T *, int64_t);                                      \
  template void cross_entropy_target_local<T>(T *, T *, T *, const T *, const T *, const T *, int64_t, int64_t);       \
  template void cross_entropy_target_finish<T>(T *, T *, const T *, const T *, const T *, int64_t);                    \
  template void reference::cross_entropy<T>(T *, const T *, const int32_t *, int64_t, int64_t);                        \
  template void reference::cross_entropy_target<T>(T *, const T *, const T *, int64_t, int64_t);
INSTANTIATE(float)
INSTANTIATE(double)
#undef INSTANTIATE

} // namespace echelon::runtime
