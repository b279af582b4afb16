// Sums of contiguous values and of computed ones, for the kernels' own use. A block of 256 is added up in vector lanes
// and the lanes by halves, the blocks in double with Kahan's compensation: the order is fixed, the error does not grow
// with n.
#pragma once
#include "runtime/kernels/cpu/Vectors.h"
#include <algorithm>

namespace echelon::runtime::detail {

constexpr int64_t kSumBlock = 256;

/// The sum of x[0 .. n), n up to a few hundred, in four vectors of partial sums.
template <typename T> inline T sum_block(const T *x, int64_t n) {
  using L = Lanes<T>;
  typename L::Vector a = {}, b = {}, c = {}, d = {};
  const auto *v = reinterpret_cast<const typename L::Unaligned *>(x);
  int64_t i = 0, vectors = n / L::width;
  for (; i + 4 <= vectors; i += 4)
    a += v[i], b += v[i + 1], c += v[i + 2], d += v[i + 3];
  for (; i < vectors; ++i)
    a += v[i];
  a = (a + b) + (c + d);
  T sum = sum_across<T>(a);
  for (int64_t j = vectors * L::width; j < n; ++j)
    sum += x[j];
  return sum;
}

/// A compensated sum. Infinities and NaN pass through.
class Accumulator {
  double sum = 0, lost = 0;

public:
  void add(double x) {
    double y = x - lost, t = sum + y;
    double rounding = (t - sum) - y;
    lost = rounding - rounding == 0 ? rounding : 0;
    sum = t;
  }
  void scale(double factor) { sum *= factor, lost *= factor; }
  double value() const { return sum; }
};

template <typename T> inline void add_sum(Accumulator &total, const T *x, int64_t n) {
  for (int64_t i = 0; i < n; i += kSumBlock)
    total.add(sum_block(x + i, std::min(kSumBlock, n - i)));
}

template <typename T> inline double sum_of(const T *x, int64_t n) {
  Accumulator total;
  add_sum(total, x, n);
  return total.value();
}

/// total += the elements of f(at, i), the vectors of places i < n (see over_vectors). As add_sum of those elements.
template <typename T, typename F> inline void add_sum_of_vectors(Accumulator &total, int64_t n, F f) {
  constexpr int64_t w = Lanes<T>::width;
  for (int64_t start = 0; start < n; start += kSumBlock) {
    const int64_t end = std::min(n, start + kSumBlock);
    Vector<T> a = {}, b = {}, c = {}, d = {};
    int64_t i = start;
    for (; i + 4 * w <= end; i += 4 * w)
      a += f(Whole{}, i), b += f(Whole{}, i + w), c += f(Whole{}, i + 2 * w), d += f(Whole{}, i + 3 * w);
    for (; i + w <= end; i += w)
      a += f(Whole{}, i);
    a = (a + b) + (c + d);
    T sum = sum_across<T>(a);
    if (i < end) {
      Vector<T> rest = f(Part{end - i}, i);
      for (int64_t l = 0; l < end - i; ++l)
        sum += rest[l];
    }
    total.add(sum);
  }
}

template <typename T, typename F> inline double sum_of_vectors(int64_t n, F f) {
  Accumulator total;
  add_sum_of_vectors<T>(total, n, f);
  return total.value();
}

/// The largest (`largest`) or smallest of x[0 .. n); NaN if there is one. n = 0: -inf or inf, integers their limits.
template <bool largest, typename T> inline T extreme_of(const T *x, int64_t n) {
  using L = Lanes<T>;
  using Limits = std::numeric_limits<T>;
  constexpr int chains = 4;        // enough to hide an operation's latency
  constexpr int64_t kAhead = 1024; // elements
  T none = largest ? (Limits::has_infinity ? -Limits::infinity() : Limits::lowest())
                   : (Limits::has_infinity ? Limits::infinity() : Limits::max());
  Vector<T> v[chains];
  for (Vector<T> &chain : v)
    chain = every(none);
  auto nan = nan_in<T>(v[0], v[0]);
  int64_t i = 0;
  for (; i + chains * L::width <= n; i += chains * L::width) {
    Vector<T> p[chains];
    for (int c = 0; c < chains; ++c) {
      __builtin_prefetch(x + i + kAhead + c * L::width); // where a search follows, the next row
      p[c] = Whole().load(x + i + c * L::width);
      v[c] = extreme<largest, T>(p[c], v[c]);
    }
    for (int c = 0; c < chains; c += 2)
      nan |= nan_in<T>(p[c], p[c + 1]);
  }
  for (int c = 1; c < chains; ++c)
    v[0] = extreme<largest, T>(v[0], v[c]);
  T best = across<T>(v[0], extreme<largest, T>);
  bool bad = bits_of<T>(nan) != 0;
  for (; i < n; ++i) {
    best = largest ? (x[i] > best ? x[i] : best) : (x[i] < best ? x[i] : best);
    bad |= x[i] != x[i];
  }
  return bad ? Limits::quiet_NaN() : best;
}

} // namespace echelon::runtime::detail
