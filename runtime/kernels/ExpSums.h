// Sums of exponentials over contiguous values, for softmax and cross-entropy.
#pragma once
#include "runtime/kernels/BlockedSum.h"
#include <cmath>

namespace echelon::runtime::detail {

/// What is subtracted before exp: the maximum, but 0 where all is -inf, so that exp gives 0 and not NaN.
template <typename T> inline T shift_of(T m) { return m == -std::numeric_limits<T>::infinity() ? T(0) : m; }

/// sum exp(x - shift).
template <typename T> inline T exp_sum(const T *x, int64_t n, T shift) {
  const Vector<T> s = every(shift);
  return static_cast<T>(sum_of_vectors<T>(n, [&](auto at, int64_t i) { return exp_down(at.load(x + i) - s); }));
}

template <typename T> struct MaximumAndSum {
  T maximum, sum;
};

/// max x, and sum exp(x - max x), in one pass over memory: blocks that lie in the L1 cache are read for their maximum,
/// then for the sum, which is scaled when a later block's maximum is larger. A NaN makes the sum NaN.
template <typename T> inline MaximumAndSum<T> maximum_and_exp_sum(const T *x, int64_t n) {
  constexpr int64_t block = 1024;
  T top = -std::numeric_limits<T>::infinity();
  Accumulator total;
  for (int64_t start = 0; start < n; start += block) {
    const T *from = x + start;
    const int64_t count = std::min(block, n - start);
    const T m = largest_number(from, count);
    if (m > top) {
      if (start > 0)
        total.scale(std::exp(double(top) - double(m)));
      top = m;
    }
    const Vector<T> shift = every(shift_of(top));
    add_sum_of_vectors<T>(total, count, [&](auto at, int64_t i) {
      __builtin_prefetch(from + i + block);
      return exp_down(at.load(from + i) - shift);
    });
  }
  return {top, static_cast<T>(total.value())};
}

} // namespace echelon::runtime::detail
