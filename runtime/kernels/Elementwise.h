// Scalar functions for printed loops: `for (i) y[i] = math::gelu(x[i] + b[j]);`. Branch-free, so that gcc -O3
// -march=native turns such loops into vector code. The float versions are own polynomials with a relative error below
// 3e-7 where not said otherwise; infinities and NaN come out as in IEEE 754, so that a check for finite values sees
// them. The double versions call <cmath>. Always called qualified, so that nothing clashes with libc.
#pragma once
#include "runtime/kernels/HostDevice.h"
#include "runtime/transport/NarrowFloat.h"
#include <cmath>
#include <cstdint>
#include <limits>
#include <type_traits>

namespace echelon::runtime::math {

namespace detail {
ECHELON_HOST_DEVICE inline int32_t bitsOf(float x) { return __builtin_bit_cast(int32_t, x); }
ECHELON_HOST_DEVICE inline int64_t bitsOf(double x) { return __builtin_bit_cast(int64_t, x); }
ECHELON_HOST_DEVICE inline int16_t bitsOf(bf16 x) { return __builtin_bit_cast(int16_t, x); }
ECHELON_HOST_DEVICE inline int16_t bitsOf(fp16 x) { return __builtin_bit_cast(int16_t, x); }
ECHELON_HOST_DEVICE inline float fromBits(int32_t x) { return __builtin_bit_cast(float, x); }
ECHELON_HOST_DEVICE inline double fromBits(int64_t x) { return __builtin_bit_cast(double, x); }
/// 2^n; unsigned, because for a NaN n is anything.
ECHELON_HOST_DEVICE inline float powerOfTwo(int32_t n) {
  return fromBits(static_cast<int32_t>((static_cast<uint32_t>(n) + 127u) << 23));
}
ECHELON_HOST_DEVICE inline double powerOfTwo(int64_t n) {
  return fromBits(static_cast<int64_t>((static_cast<uint64_t>(n) + 1023u) << 52));
}
constexpr float kRoundFloat = 12582912.0f;          // 1.5 * 2^23: x + k - k rounds x to an integer
constexpr double kRoundDouble = 6755399441055744.0; // 1.5 * 2^52
} // namespace detail

//===-- comparisons and rounding ---------------------------------------------------------------------------------===//

template <typename T> ECHELON_HOST_DEVICE inline T max(T a, T b) {
  return a > b || a != a ? a : b;
} // NaN from either side stays
template <typename T> ECHELON_HOST_DEVICE inline T min(T a, T b) { return a < b || a != a ? a : b; }
template <typename T> ECHELON_HOST_DEVICE inline T clamp(T x, T lo, T hi) { return min(max(x, lo), hi); }
/// 1 where x > 0, else 0: the derivative of relu.
template <typename T> ECHELON_HOST_DEVICE inline T step(T x) { return x > T(0) ? T(1) : T(0); }
/// -1, 0 or 1: the derivative of abs.
template <typename T> ECHELON_HOST_DEVICE inline T sign(T x) { return T(x > T(0)) - T(x < T(0)); }
template <typename T> ECHELON_HOST_DEVICE inline T relu(T x) { return x <= T(0) ? T(0) : x; }
/// a where c, else b. Not `c ? a : b`: of that gcc makes loads under a mask, and before 12.4 and 13.3 it takes the
/// wrong elements where it vectorizes a short transposing loop with such loads (its bug 114375).
template <typename T> ECHELON_HOST_DEVICE inline T select(bool c, T a, T b) {
  if constexpr (std::is_same_v<T, bool>) {
    return (c & a) | (!c & b);
  } else if constexpr (std::is_integral_v<T>) {
    return b ^ ((a ^ b) & -static_cast<T>(c));
  } else {
    using Bits = decltype(detail::bitsOf(a));
    const Bits mask = static_cast<Bits>(-static_cast<Bits>(c));
    return __builtin_bit_cast(T, static_cast<Bits>((detail::bitsOf(a) & mask) | (detail::bitsOf(b) & ~mask)));
  }
}
/// d where x > 0, else 0.
template <typename T> ECHELON_HOST_DEVICE inline T relu_grad(T x, T d) { return select(x > T(0), d, T(0)); }
ECHELON_HOST_DEVICE inline float abs(float x) { return __builtin_fabsf(x); }
ECHELON_HOST_DEVICE inline double abs(double x) { return __builtin_fabs(x); }
ECHELON_HOST_DEVICE inline int32_t abs(int32_t x) { return x < 0 ? -x : x; }
ECHELON_HOST_DEVICE inline float floor(float x) { return __builtin_floorf(x); }
ECHELON_HOST_DEVICE inline double floor(double x) { return __builtin_floor(x); }
ECHELON_HOST_DEVICE inline int32_t floor(int32_t x) { return x; }
/// To the nearest number of 10 bits of mantissa, ties to even.
ECHELON_HOST_DEVICE inline float round_tf32(float x) {
  const uint32_t bits = __builtin_bit_cast(uint32_t, x);
  const bool isNan = (bits & 0x7fffffffu) > 0x7f800000u;
  return __builtin_bit_cast(float, (isNan ? bits | 0x400000u : bits + 0xfffu + (bits >> 13 & 1u)) & ~0x1fffu);
}
namespace detail {
/// To the nearest number of `bits` bits of mantissa, below 2^least in equal steps, ties to even. Of overflow it knows
/// nothing.
template <int bits, int least> ECHELON_HOST_DEVICE inline float roundMantissa(float x) {
  constexpr uint32_t dropped = 23 - bits, half = (1u << (dropped - 1)) - 1;
  constexpr float shift = kRoundFloat / static_cast<float>(1u << (bits - least));
  const uint32_t word = __builtin_bit_cast(uint32_t, x);
  const bool isNan = (word & 0x7fffffffu) > 0x7f800000u;
  const uint32_t near = isNan ? word : (word + half + (word >> dropped & 1u)) & ~((1u << dropped) - 1);
  const bool isSmall = (word & 0x7fffffffu) < static_cast<uint32_t>(127 + least) << 23;
  return __builtin_bit_cast(float, isSmall ? __builtin_bit_cast(uint32_t, x + shift - shift) : near);
}
} // namespace detail
/// To the nearest number of E4M3 and of E5M2 (OCP 8-bit Floating Point Specification, 2023) of what is at most 448 and
/// 57,344 in size.
ECHELON_HOST_DEVICE inline float round_e4m3(float x) { return detail::roundMantissa<3, -6>(x); }
ECHELON_HOST_DEVICE inline float round_e5m2(float x) { return detail::roundMantissa<2, -14>(x); }
/// 2^floor(log2 x) of x > 0, at most 2^126; 0 below 2^-126.
ECHELON_HOST_DEVICE inline float power_of_two(float x) {
  const uint32_t word = __builtin_bit_cast(uint32_t, x) & 0x7fffffffu;
  return __builtin_bit_cast(float, word > 0x7f800000u ? word : min<uint32_t>(word & 0x7f800000u, 253u << 23));
}
/// To the nearest whole number, ties to even.
ECHELON_HOST_DEVICE inline float round(float x) { return __builtin_rintf(x); }
ECHELON_HOST_DEVICE inline double round(double x) { return __builtin_rint(x); }
/// x - floor(x / y) * y, which has the sign of y. An integer y is not 0: the compiler sees to it.
ECHELON_HOST_DEVICE inline int32_t mod(int32_t x, int32_t y) {
  if (y == -1) // the least integer by -1 is beyond the type
    return 0;
  const int32_t r = x % y;
  return r != 0 && ((r < 0) != (y < 0)) ? r + y : r;
}
ECHELON_HOST_DEVICE inline double mod(double x, double y) {
  const double r = std::fmod(x, y); // exact, with the sign of x
  return r != 0 && (r < 0) != (y < 0) ? r + y : r;
}
/// As exact as fmod, without its loop: a quotient that is right to 51 bits leaves a remainder that a double holds, and
/// each further one takes 51 bits more from it. Six take all that two floats can differ by. As 1 / y is rounded, y
/// itself may be left.
ECHELON_HOST_DEVICE inline float mod(float x, float y) {
  const double b = clamp<double>(y, -1e300, 1e300), size = __builtin_fabs(b), inverse = 1.0 / b;
  double r = x;
  r = __builtin_fma(-__builtin_trunc(r * inverse), b, r);
  r = __builtin_fma(-__builtin_trunc(r * inverse), b, r);
  r = __builtin_fma(-__builtin_trunc(r * inverse), b, r);
  r = __builtin_fma(-__builtin_trunc(r * inverse), b, r);
  r = __builtin_fma(-__builtin_trunc(r * inverse), b, r);
  r = __builtin_fma(-__builtin_trunc(r * inverse), b, r);
  r = r >= size ? r - size : r <= -size ? r + size : r;
  return static_cast<float>(r * b < 0 ? r + b : r);
}

//===-- powers and logarithms ------------------------------------------------------------------------------------===//

ECHELON_HOST_DEVICE inline float sqrt(float x) { return __builtin_sqrtf(x); }
ECHELON_HOST_DEVICE inline double sqrt(double x) { return __builtin_sqrt(x); }
ECHELON_HOST_DEVICE inline float rsqrt(float x) { return 1.0f / __builtin_sqrtf(x); }
ECHELON_HOST_DEVICE inline double rsqrt(double x) { return 1.0 / __builtin_sqrt(x); }
template <typename T> ECHELON_HOST_DEVICE inline T square(T x) { return x * x; }

namespace detail {
constexpr float kLog2e = 1.44269504088896341f, kLog2eRest = 1.92596299e-8f;
constexpr float kExpShift = kRoundFloat + 127;
constexpr float kExpZero = -86.99f; // below, exp is 0
/// A minimax fit of 2^f, f in [-0.5, 0.5], 2^0 being exact; the highest power first.
constexpr float kExp2[] = {1.326472731e-3f, 9.671512991e-3f, 5.550733581e-2f, 2.402224243e-1f, 6.931470037e-1f, 1.0f};
} // namespace detail
/// (2 * 2^f) * 2^(n - 1), n + f = x / log 2: n goes up to 128, and 2^128 is no float. The low bits of t are n + 126,
/// which moved up are 2^(n - 1). Below 2^-125.5, which is 1.7e-38, the result is 0.
ECHELON_HOST_DEVICE inline float exp(float x) {
  constexpr float shift = detail::kExpShift - 1;
  float t = x * detail::kLog2e + shift;
  int32_t top = detail::bitsOf(shift) + 128;
  int32_t bits = detail::bitsOf(t) < top ? detail::bitsOf(t) : top;
  float f = x * detail::kLog2e - (detail::fromBits(bits) - shift);
  f = f + x * detail::kLog2eRest;
  constexpr float c0 = 2 * detail::kExp2[0], c1 = 2 * detail::kExp2[1], c2 = 2 * detail::kExp2[2];
  constexpr float c3 = 2 * detail::kExp2[3], c4 = 2 * detail::kExp2[4], c5 = 2 * detail::kExp2[5];
  float p = c0;
  p = p * f + c1;
  p = p * f + c2;
  p = p * f + c3;
  p = p * f + c4;
  p = p * f + c5;
  p = p * detail::fromBits(static_cast<int32_t>(static_cast<uint32_t>(bits) << 23));
  return x < detail::kExpZero ? 0.0f : p;
}
ECHELON_HOST_DEVICE inline double exp(double x) { return std::exp(x); }

/// x = 2^n * m, m in [0.707, 1.414]; a polynomial for log m (Cephes), subnormal x scaled up first.
ECHELON_HOST_DEVICE inline float log(float x) {
  bool small = x < 1.17549435e-38f;
  float y = small ? x * 8388608.0f : x;
  int32_t bits = detail::bitsOf(y);
  int32_t n = static_cast<int32_t>(static_cast<uint32_t>(bits) - 0x3f3504f3u) >> 23;
  float m =
      detail::fromBits(static_cast<int32_t>(static_cast<uint32_t>(bits) - (static_cast<uint32_t>(n) << 23))) - 1.0f;
  float k = static_cast<float>(n) - (small ? 23.0f : 0.0f);
  float p = 7.0376836292e-2f;
  p = p * m - 1.1514610310e-1f;
  p = p * m + 1.1676998740e-1f;
  p = p * m - 1.2420140846e-1f;
  p = p * m + 1.4249322787e-1f;
  p = p * m - 1.6668057665e-1f;
  p = p * m + 2.0000714765e-1f;
  p = p * m - 2.4999993993e-1f;
  p = p * m + 3.3333331174e-1f;
  float z = m * m;
  float r = p * m * z;
  r = r + k * -2.12194440e-4f;
  r = r - 0.5f * z;
  r = m + r;
  r = r + k * 0.693359375f;
  r = x > 3.4028234e38f ? x : r; // inf
  r = x == 0.0f ? -std::numeric_limits<float>::infinity() : r;
  return x >= 0.0f ? r : std::numeric_limits<float>::quiet_NaN(); // negative, NaN
}
ECHELON_HOST_DEVICE inline double log(double x) { return std::log(x); }

namespace detail {
/// log |x| and e^x to about 1e-12, for pow of floats.
ECHELON_HOST_DEVICE inline double logWide(double x) {
  int64_t bits = bitsOf(x);
  int64_t n = (bits - 0x3fe6a09e667f3bcdLL) & ~0xfffffffffffffLL; // n * 2^52, n the exponent of x / sqrt(1/2)
  double m = fromBits(bits - n);
  double k = fromBits((n >> 52) + bitsOf(kRoundDouble)) - kRoundDouble;
  double s = (m - 1.0) / (m + 1.0), z = s * s;
  double p = 1.0 / 15;
  p = p * z + 1.0 / 13;
  p = p * z + 1.0 / 11;
  p = p * z + 1.0 / 9;
  p = p * z + 1.0 / 7;
  p = p * z + 1.0 / 5;
  p = p * z + 1.0 / 3;
  return k * 0.69314718055994530942 + 2.0 * (s + s * z * p);
}
ECHELON_HOST_DEVICE inline double expWide(double x) {
  double c = x > 700.0 ? 700.0 : x;
  c = c < -700.0 ? -700.0 : c;
  double t = c * 1.44269504088896340736 + kRoundDouble;
  int64_t n = bitsOf(t) - bitsOf(kRoundDouble);
  double k = t - kRoundDouble;
  double r = c - k * 6.93147180369123816490e-01;
  r = r - k * 1.90821492927058770002e-10;
  double p = 1.0 / 3628800;
  p = p * r + 1.0 / 362880;
  p = p * r + 1.0 / 40320;
  p = p * r + 1.0 / 5040;
  p = p * r + 1.0 / 720;
  p = p * r + 1.0 / 120;
  p = p * r + 1.0 / 24;
  p = p * r + 1.0 / 6;
  p = p * r + 0.5;
  p = p * r + 1.0;
  p = p * r + 1.0;
  return p * powerOfTwo(n);
}
/// pi / 2 in two parts.
constexpr double kQuarter = 0x1.921fb54442d18p+0, kQuarterRest = 0x1.1a62633145c07p-54;
/// sin(x + quarters * pi / 2). x is reduced by multiples of each of kTurns, then of pi / 2: quotients stay below 2^51,
/// so that they are rounded to integers by an addition, and remainders are exact. Of what is left, fits in float
/// (Cephes).
ECHELON_HOST_DEVICE inline float sinFrom(float x, int32_t quarters) {
  // Two numbers of 53 bits beside multiples of 2 pi, and how far beyond these they are.
  constexpr double kTurns[] = {0x1.99caa5236feeap+78, 0x1.b951f1572eba5p+27};
  constexpr double kBeyond[] = {-0x1.b88a70d18604ep-55, -0x1.f54f5227a4e84p-56};
  double r = x;
  const double k0 = (r * (1 / kTurns[0]) + kRoundDouble) - kRoundDouble;
  r = __builtin_fma(-k0, kTurns[0], r);
  const double k1 = (r * (1 / kTurns[1]) + kRoundDouble) - kRoundDouble;
  r = __builtin_fma(-k1, kTurns[1], r);
  const double t = r * 0.63661977236758134308 + kRoundDouble, k = t - kRoundDouble;
  r = __builtin_fma(-k, kQuarter, r);
  r = r - k * kQuarterRest;
  r = r + k0 * kBeyond[0];
  r = r + k1 * kBeyond[1];
  const float a = static_cast<float>(r), z = a * a;
  const int32_t q = static_cast<int32_t>(bitsOf(t)) + quarters;
  float s = -1.9515295891e-4f;
  s = s * z + 8.3321608736e-3f;
  s = s * z - 1.6666654611e-1f;
  s = s * z + 1.0f;
  s = s * a;
  float c = 2.443315711809948e-5f;
  c = c * z - 1.388731625493765e-3f;
  c = c * z + 4.166664568298827e-2f;
  c = c * z - 0.5f;
  c = c * z + 1.0f;
  const float v = (q & 1) ? c : s;
  return fromBits(static_cast<int32_t>(static_cast<uint32_t>(bitsOf(v)) ^ static_cast<uint32_t>(q & 2) << 30));
}
} // namespace detail

ECHELON_HOST_DEVICE inline float sin(float x) { return detail::sinFrom(x, 0); }
ECHELON_HOST_DEVICE inline double sin(double x) { return std::sin(x); }
ECHELON_HOST_DEVICE inline float cos(float x) { return detail::sinFrom(x, 1); }
ECHELON_HOST_DEVICE inline double cos(double x) { return std::cos(x); }

/// As std::pow: x < 0 needs an integer y, x^0 = 1.
ECHELON_HOST_DEVICE inline float pow(float x, float y) {
  float a = abs(x);
  double r = detail::expWide(static_cast<double>(y) * detail::logWide(a));
  float inf = std::numeric_limits<float>::infinity();
  float v = static_cast<float>(r);
  v = a == 0.0f ? (y < 0.0f ? inf : 0.0f) : v;
  v = a == inf ? (y < 0.0f ? 0.0f : inf) : v;
  float half = y * 0.5f;
  bool integer = floor(y) == y, odd = integer && floor(half) != half;
  v = detail::bitsOf(x) < 0 && odd ? -v : v;
  v = x < 0.0f && a < inf && !integer ? std::numeric_limits<float>::quiet_NaN() : v;
  v = x != x || y != y ? x + y : v;
  v = y == 0.0f ? 1.0f : v;
  return x == 1.0f ? 1.0f : v;
}
ECHELON_HOST_DEVICE inline double pow(double x, double y) { return std::pow(x, y); }

//===-- activations ----------------------------------------------------------------------------------------------===//

ECHELON_HOST_DEVICE inline float sigmoid(float x) { return 1.0f / (1.0f + exp(-x)); }
ECHELON_HOST_DEVICE inline double sigmoid(double x) { return 1.0 / (1.0 + exp(-x)); }
template <typename T> ECHELON_HOST_DEVICE inline T silu(T x) { return x * sigmoid(x); }

/// x P(x^2) / Q(x^2), a minimax fit up to 8.9, from where on the result is 1.
ECHELON_HOST_DEVICE inline float tanh(float x) {
  float a = x > 8.9f ? 8.9f : x; // a NaN stays
  a = a < -8.9f ? -8.9f : a;
  float z = a * a;
  float p = 1.35507321e-8f;
  p = p * z + 2.07470789e-5f;
  p = p * z + 3.50388788e-3f;
  p = p * z + 1.33879948e-1f;
  p = p * z + 1.0f;
  float q = 7.85560487e-7f;
  q = q * z + 3.29926073e-4f;
  q = q * z + 2.59084947e-2f;
  q = q * z + 4.67213122e-1f;
  q = q * z + 1.0f;
  float y = a * p / q;
  y = y > 1.0f ? 1.0f : y;
  return y < -1.0f ? -1.0f : y;
}
ECHELON_HOST_DEVICE inline double tanh(double x) { return std::tanh(x); }

/// t + t P(t^2) below 0.92, 1 - exp(R(t)) above, both minimax fits; from 4 on the result is 1 in float.
ECHELON_HOST_DEVICE inline float erf(float x) {
  float a = abs(x), z = x * x;
  float p = -5.97689359e-4f;
  p = p * z + 4.99098003e-3f;
  p = p * z - 2.67655663e-2f;
  p = p * z + 1.12818025e-1f;
  p = p * z - 3.76124948e-1f;
  p = p * z + 1.28379151e-1f;
  float near = p * x + x;
  float t = a > 4.0f ? 4.0f : a;
  float q = 1.95938264e-4f;
  q = q * t - 3.04322666e-3f;
  q = q * t + 2.22269557e-2f;
  q = q * t - 1.03931665e-1f;
  q = q * t - 6.37182176e-1f;
  q = q * t - 1.27675667e-1f;
  q = q * t - 1.95666502e-4f;
  float far = 1.0f - exp(q - t);
  return a < 0.92f ? near : __builtin_copysignf(far, x);
}
ECHELON_HOST_DEVICE inline double erf(double x) { return std::erf(x); }
/// P(X < x), X normal. The float version's absolute error is below 2e-7.
ECHELON_HOST_DEVICE inline float normal_cdf(float x) {
  // A fit of log P(X > x), X normal, for x in [0, 5.7], weighted so that P times max(1, x) is within 2e-8; beyond, it
  // falls and so does its exp. The highest power first.
  constexpr float kLogTail[] = {-1.57751049e-6f, 2.28516419e-5f,  -1.09017114e-4f, -1.40348304e-4f, 4.95099975e-3f,
                                -3.64224128e-2f, -3.18288386e-1f, -7.97886550e-1f, -6.93147123e-1f};
  float a = abs(x), p = kLogTail[0];
  p = p * a + kLogTail[1];
  p = p * a + kLogTail[2];
  p = p * a + kLogTail[3];
  p = p * a + kLogTail[4];
  p = p * a + kLogTail[5];
  p = p * a + kLogTail[6];
  p = p * a + kLogTail[7];
  p = p * a + kLogTail[8];
  float tail = exp(p), rest = 1.0f - tail;
  return x < 0.0f ? tail : rest;
}
ECHELON_HOST_DEVICE inline double normal_cdf(double x) { return 0.5 * (1.0 + erf(x * 0.70710678118654752440)); }
/// x * P(X < x), X normal. The float version's absolute error is below 3e-7 * max(1, |x|).
template <typename T> ECHELON_HOST_DEVICE inline T gelu(T x) { return x * normal_cdf(x); }
/// x * sigmoid(2 u), u = sqrt(2 / pi) (x + 0.044715 x^3), which is 0.5 x (1 + tanh u).
template <typename T> ECHELON_HOST_DEVICE inline T gelu_tanh(T x) {
  return x * sigmoid(T(1.5957691216057307117) * (x + T(0.044715) * x * x * x));
}

//===-- derivatives ----------------------------------------------------------------------------------------------===//

/// From the result y = sigmoid(x), tanh(x).
template <typename T> ECHELON_HOST_DEVICE inline T sigmoid_grad(T y) { return y * (T(1) - y); }
template <typename T> ECHELON_HOST_DEVICE inline T tanh_grad(T y) { return T(1) - y * y; }
/// From the argument.
template <typename T> ECHELON_HOST_DEVICE inline T erf_grad(T x) { return T(1.1283791670955125739) * exp(-x * x); }
namespace detail {
/// sigmoid(x) and 1 - sigmoid(x), the latter without cancellation; exp(-x) is finite.
template <typename T> struct SigmoidPair {
  T s, rest;
  ECHELON_HOST_DEVICE explicit SigmoidPair(T x) {
    T e = exp(-x);
    s = T(1) / (T(1) + e);
    rest = e * s;
  }
};
} // namespace detail
template <typename T> ECHELON_HOST_DEVICE inline T silu_grad(T x) {
  constexpr T least = sizeof(T) == 4 ? -88 : -700;
  x = x < least ? least : x; // there it is 0, and exp(-x) is finite; a NaN stays
  detail::SigmoidPair<T> p(x);
  return p.s * (T(1) + x * p.rest);
}
template <typename T> ECHELON_HOST_DEVICE inline T gelu_grad(T x) {
  return normal_cdf(x) + x * T(0.39894228040143267794) * exp(T(-0.5) * x * x);
}
template <typename T> ECHELON_HOST_DEVICE inline T gelu_tanh_grad(T x) {
  constexpr T most = sizeof(T) == 4 ? T(10.02) : T(20);
  x = x > most ? most : x; // there it is 1, and 0 on the other side; x^3 and exp are finite, and a NaN stays
  x = x < -most ? -most : x;
  constexpr T c = T(1.5957691216057307117), cube = c * T(0.044715);
  const T z = x * x;
  detail::SigmoidPair<T> p(x * (c + cube * z));
  return p.s * (T(1) + x * p.rest * (c + 3 * cube * z));
}

} // namespace echelon::runtime::math
