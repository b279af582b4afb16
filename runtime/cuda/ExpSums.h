// Sums of exponentials in one pass over memory, for softmax and cross-entropy: each thread keeps the maximum so far and
// the sum of exp(x - maximum), which is scaled when the maximum grows; then the threads' are put together.
#pragma once
#include "runtime/cuda/Rows.h"
#include "runtime/kernels/Elementwise.h"

namespace echelon::cuda {

/// What is subtracted before exp: the maximum, but 0 where all is -inf, so that exp gives 0 and not NaN.
template <typename W> DEVICE W shift_of(W m) { return m == -std::numeric_limits<W>::infinity() ? W(0) : m; }

/// How many elements are loaded at once beside exponentials, and how many packs ahead. Of double one: its exp is long,
/// and there would be that many.
template <typename T> constexpr int kExpPack = sizeof(T) == 8 ? 1 : kPack<T>;
template <typename T> constexpr int kExpAhead = sizeof(T) == 8 ? 1 : 4;

/// W is float or double. A NaN or +inf makes the sum NaN; the maximum is that of the numbers.
template <typename W> struct ExpSum {
  W top;
  double sum;

  DEVICE ExpSum() : top(-std::numeric_limits<W>::infinity()), sum(0) {}

  template <typename T, int k> DEVICE void add(const Pack<T, k> &pack) {
    W most = top;
    UNROLL for (int j = 0; j < k; ++j) {
      const W v = static_cast<W>(pack.at[j]);
      most = v > most ? v : most;
    }
    if (most > top) {
      sum *= runtime::math::exp(top - most);
      top = most;
    }
    const W shift = shift_of(top);
    W part = W(0);
    UNROLL for (int j = 0; j < k; ++j) part += runtime::math::exp(static_cast<W>(pack.at[j]) - shift);
    sum += part;
  }
  /// The sum seen from a maximum that is not smaller.
  DEVICE double from(W most) const { return top == most ? sum : sum * runtime::math::exp(top - most); }
};

/// Of a row, of which what is no whole pack comes last; on every thread that shares it.
template <int k, typename T, typename By> DEVICE ExpSum<Wide<T>> exp_sum_of_row(const By &by, const T *row, int64_t n) {
  ExpSum<Wide<T>> own, all;
  const int64_t packed = n - n % k;
  over_packs<k, kExpAhead<T>>(by, row, packed, [&](int64_t, const Pack<T, k> &pack) { own.add(pack); });
  if (packed + by.rank() < n)
    own.add(Pack<T, 1>{{row[packed + by.rank()]}});
  all.top = by.max(own.top);
  all.sum = by.sum(own.from(all.top));
  return all;
}

/// Of a column, whose rows the warps of a block share; on every thread. `tops`, `sums`: shared memory for one number a
/// thread.
template <typename T>
DEVICE ExpSum<Wide<T>> exp_sum_of_column(const T *x, int64_t n, int64_t inner, Wide<T> *tops, double *sums) {
  using W = Wide<T>;
  ExpSum<W> own, all;
  down_column(x, n, inner, [&](int64_t, T v) { own.add(Pack<T, 1>{{v}}); });
  all.top = over_warps(own.top, tops, [](W a, W b) { return b > a ? b : a; });
  all.sum = over_warps(own.from(all.top), sums, [](double a, double b) { return a + b; });
  return all;
}

/// sum exp(x - shift) over a row; on every thread that shares it.
template <int k, typename T, typename By>
DEVICE double shifted_sum_of_row(const By &by, const T *row, int64_t n, Wide<T> shift) {
  using W = Wide<T>;
  double sum = 0;
  over_packs<k, kExpAhead<T>>(by, row, n, [&](int64_t, const Pack<T, k> &pack) {
    W part = W(0);
    UNROLL for (int j = 0; j < k; ++j) part += runtime::math::exp(static_cast<W>(pack.at[j]) - shift);
    sum += part;
  });
  return by.sum(sum);
}

} // namespace echelon::cuda
