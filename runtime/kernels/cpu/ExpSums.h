// Sums of exponentials over contiguous values, for softmax and cross-entropy.
#pragma once
#include "runtime/kernels/cpu/BlockedSum.h"
#include <cmath>

namespace echelon::runtime::detail {

/// What is subtracted before exp: the maximum, but 0 where all is -inf, so that exp gives 0 and not NaN.
template <typename T> inline T shift_of(T m) { return m == -std::numeric_limits<T>::infinity() ? T(0) : m; }

/// sum exp(x - shift).
template <typename T> inline T exp_sum(const T *x, int64_t n, T shift) {
  const Vector<T> s = every(shift);
  return static_cast<T>(sum_of_vectors<T>(n, [&](auto at, int64_t i) { return exp_down(at.load(x + i) - s); }));
}

/// sum is that of exp(x - shift).
template <typename T> struct ShiftedSum {
  T shift, sum;
};

/// The shift is max x. In one pass over memory: blocks that lie in the L1 cache are read for their maximum, then for
/// the sum, which is scaled when a later block's maximum is larger. A NaN makes the sum NaN.
template <typename T> inline ShiftedSum<T> exp_sum_from_maximum(const T *x, int64_t n) {
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
    add_sum_of_vectors<T>(total, count, [&](auto at, int64_t i) { return exp_down(at.load(from + i) - shift); });
  }
  return {top, static_cast<T>(total.value())};
}

/// The sum of 2^(x * log2 e - exponent), log2 e as a float, over x[0 .. n), n up to a few hundred; `top` becomes the
/// larger of itself and each lane of x. As exp_down, but subtracting an integer from the exponent costs nothing.
inline float power_sum(const float *x, int64_t n, float exponent, Vector<float> &top) {
  typedef int32_t Bits __attribute__((vector_size(32)));
  constexpr float log2e = math::detail::kLog2e;
  const Vector<float> shift = every(math::detail::kExpShift - exponent), least = every((exponent - 127) / log2e);
  Vector<float> most = top, a = {}, b = {};
  auto power = [&](Vector<float> v) {
    most = larger<float>(v, most);
    v = larger<float>(least, v); // whose 2^n is 0
    const Vector<float> t = v * log2e + shift;
    const Vector<float> f = v * log2e - (t - shift);
    Vector<float> p = every(math::detail::kExp2[0]);
    for (int k = 1; k < 6; ++k)
      p = p * f + math::detail::kExp2[k];
    return p * (Vector<float>)((Bits)t << 23);
  };
  constexpr int64_t w = Lanes<float>::width;
  int64_t i = 0;
  for (; i + 2 * w <= n; i += 2 * w) {
    __builtin_prefetch(x + i + 1024);
    a += power(Whole().load(x + i));
    b += power(Whole().load(x + i + w));
  }
  for (; i + w <= n; i += w)
    a += power(Whole().load(x + i));
  if (i < n)
    a += power(first_lanes<float>(n - i) ? Part{n - i}.load(x + i) : every(-std::numeric_limits<float>::infinity()));
  top = most;
  return sum_across<float>(a + b);
}

/// A shift near max x, and the sum, in one pass: of a block the maximum and the sum of powers of two at once, relative
/// to an integer exponent. That is 0 until a block is far from it, which then is taken again: so a row need not wait
/// for its maximum, and the sum's bits do not depend on the exponent.
inline ShiftedSum<float> shifted_exp_sum(const float *x, int64_t n) {
  constexpr float log2e = math::detail::kLog2e, most = 1 << 20; // integers up to there are exact
  constexpr float room = 60; // 2^60 times a block is no overflow, and what is lost below is nothing beside 2^-60
  auto exponentOf = [](float top) { return top < -most ? -most : std::ceil(top * log2e); };
  auto isBeyond = [](Vector<float> top, float limit) { return bits_of<float>(top > every(limit)) != 0; };
  Accumulator total;
  Vector<float> top = every(-std::numeric_limits<float>::infinity());
  float exponent = 0;
  for (int64_t start = 0; start < n; start += kSumBlock) {
    const int64_t count = std::min(kSumBlock, n - start);
    float sum = power_sum(x + start, count, exponent, top);
    const bool isFarBelow = start == 0 && !isBeyond(top, -room / log2e);
    if (isFarBelow || isBeyond(top, (exponent + room) / log2e)) {
      const float next = exponentOf(across<float>(top, larger<float>));
      if (start > 0)
        total.scale(std::exp2(double(exponent) - double(next)));
      exponent = next;
      sum = power_sum(x + start, count, exponent, top);
    }
    total.add(sum);
  }
  const float largest = across<float>(top, larger<float>);
  if (!(std::abs(largest) < most / 2)) // or all is masked
    return exp_sum_from_maximum(x, n);
  // An exponent near the maximum keeps the sum's logarithm small; what rounding takes from the shift goes to the sum.
  constexpr double log2 = 1 / double(log2e);
  const float wanted = exponentOf(largest);
  const double shift = double(wanted) * log2, rounded = static_cast<float>(shift);
  const double scale = math::detail::powerOfTwo(static_cast<int64_t>(exponent - wanted)); // less than 2^room away
  const double lost = shift - rounded, exp = 1 + lost * (1 + lost * (0.5 + lost / 6));    // |lost| < 2^-6
  return {static_cast<float>(rounded), static_cast<float>(total.value() * scale * exp)};
}
inline ShiftedSum<double> shifted_exp_sum(const double *x, int64_t n) { return exp_sum_from_maximum(x, n); }

} // namespace echelon::runtime::detail
