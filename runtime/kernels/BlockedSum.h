// Sums of contiguous values and of computed ones, for the kernels' own use. A block of 256 is added up in vector lanes,
// the blocks in double with Kahan's compensation: the order is fixed, the error does not grow with n.
#pragma once
#include <algorithm>
#include <cstdint>
#include <limits>

namespace echelon::runtime::detail {

constexpr int64_t kSumBlock = 256;

template <typename T> struct Lanes { // 32 bytes at any address of a T
  typedef T Vector __attribute__((vector_size(32)));
  typedef T Unaligned __attribute__((vector_size(32), aligned(alignof(T)), may_alias));
  static constexpr int64_t width = 32 / sizeof(T);
};

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
  T sum = 0;
  for (int64_t l = 0; l < L::width; ++l)
    sum += a[l];
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

/// total += f(0) + ... + f(n - 1), f a cheap function that the compiler can vectorise.
template <typename T, typename F> inline void add_sum_over(Accumulator &total, int64_t n, F f) {
  alignas(64) T buffer[kSumBlock];
  for (int64_t i = 0; i < n; i += kSumBlock) {
    int64_t count = std::min(kSumBlock, n - i);
    for (int64_t j = 0; j < count; ++j)
      buffer[j] = f(i + j);
    total.add(sum_block(buffer, count));
  }
}

template <typename T, typename F> inline double sum_over(int64_t n, F f) {
  Accumulator total;
  add_sum_over<T>(total, n, f);
  return total.value();
}

/// The largest (`largest`) or smallest of x[0 .. n); NaN if there is one. n = 0: -inf or inf, integers their limits.
template <bool largest, typename T> inline T extreme_of(const T *x, int64_t n) {
  using L = Lanes<T>;
  using Limits = std::numeric_limits<T>;
  T none = largest ? (Limits::has_infinity ? -Limits::infinity() : Limits::lowest())
                   : (Limits::has_infinity ? Limits::infinity() : Limits::max());
  typename L::Vector a = typename L::Vector{} + none, b = a;
  auto nan = a != a;
  const auto *v = reinterpret_cast<const typename L::Unaligned *>(x);
  int64_t vectors = n / L::width, i = 0;
  for (; i + 2 <= vectors; i += 2) {
    typename L::Vector p = v[i], q = v[i + 1];
    a = largest ? (p > a ? p : a) : (p < a ? p : a);
    b = largest ? (q > b ? q : b) : (q < b ? q : b);
    nan |= (p != p) | (q != q);
  }
  T best = none;
  bool bad = false;
  auto take = [&](T y) {
    best = largest ? (y > best ? y : best) : (y < best ? y : best);
    bad |= y != y;
  };
  for (int64_t l = 0; l < L::width; ++l)
    take(a[l]), take(b[l]), bad |= nan[l] != 0;
  for (int64_t j = i * L::width; j < n; ++j)
    take(x[j]);
  return bad ? Limits::quiet_NaN() : best;
}

} // namespace echelon::runtime::detail
