// Vectors of 32 bytes for the kernels' own use, in gcc's and clang's vector types: loads and stores of whole and
// partial vectors, the larger of two, exp. A loop over n elements is written once, for both kinds of access:
//   over_vectors<T>(n, [&](auto at, int64_t i) { at.store(y + i, at.load(x + i) * factor); });
#pragma once
#include "runtime/kernels/Elementwise.h"
#include <cstdint>
#include <cstring>
#include <limits>
#ifdef __AVX__
#include <immintrin.h>
#endif

namespace echelon::runtime::detail {

template <typename T> struct Lanes { // 32 bytes at any address of a T
  typedef T Vector __attribute__((vector_size(32)));
  typedef T Unaligned __attribute__((vector_size(32), aligned(alignof(T)), may_alias));
  static constexpr int64_t width = 32 / sizeof(T);
};
template <typename T> using Vector = typename Lanes<T>::Vector;

template <typename T> inline Vector<T> every(T x) { return Vector<T>{} + x; }

/// Access to a whole vector.
struct Whole {
  template <typename T> Vector<T> load(const T *p) const {
    return *reinterpret_cast<const typename Lanes<T>::Unaligned *>(p);
  }
  template <typename T> void store(T *p, Vector<T> v) const {
    *reinterpret_cast<typename Lanes<T>::Unaligned *>(p) = v;
  }
};
/// All ones in the first `count` lanes, 0 <= count <= width.
template <typename T> inline auto first_lanes(int64_t count) {
  alignas(64) static constexpr int32_t ones[16] = {-1, -1, -1, -1, -1, -1, -1, -1};
  typedef int32_t Words __attribute__((vector_size(32)));
  Words mask;
  std::memcpy(&mask, ones + 8 - count * (sizeof(T) / 4), sizeof(mask));
  return (decltype(Vector<T>{} == Vector<T>{}))mask;
}
/// x where the mask has ones, else 0.
template <typename T, typename Mask> inline Vector<T> only(Mask mask, Vector<T> x) {
  return (Vector<T>)(mask & (Mask)x);
}

/// Access to the first `count` elements of one; the others are 0.
struct Part {
  int64_t count;
  template <typename T> Vector<T> load(const T *p) const {
#ifdef __AVX__
    if constexpr (std::is_same_v<T, float>)
      return _mm256_maskload_ps(p, (__m256i)first_lanes<T>(count));
    if constexpr (std::is_same_v<T, double>)
      return _mm256_maskload_pd(p, (__m256i)first_lanes<T>(count));
#endif
    Vector<T> v = {};
    std::memcpy(&v, p, count * sizeof(T));
    return v;
  }
  template <typename T> void store(T *p, Vector<T> v) const {
#ifdef __AVX__
    if constexpr (std::is_same_v<T, float>)
      return _mm256_maskstore_ps(p, (__m256i)first_lanes<T>(count), v);
    if constexpr (std::is_same_v<T, double>)
      return _mm256_maskstore_pd(p, (__m256i)first_lanes<T>(count), v);
#endif
    std::memcpy(p, &v, count * sizeof(T));
  }
};

/// As many elements as a vector of double has, as double.
inline Vector<double> load_wide(Whole at, const double *p) { return at.load(p); }
inline Vector<double> load_wide(Part at, const double *p) { return at.load(p); }
template <typename At> inline Vector<double> load_wide(At at, const float *p) {
  typedef float Half __attribute__((vector_size(16)));
  Half v = {};
  if constexpr (std::is_same_v<At, Whole>)
    std::memcpy(&v, p, sizeof(v));
  else
    std::memcpy(&v, p, at.count * sizeof(float));
#ifdef __AVX__
  return _mm256_cvtps_pd(v);
#else
  return __builtin_convertvector(v, Vector<double>);
#endif
}

/// The lower and the upper half of a vector, as double.
#ifdef __AVX__
inline Vector<double> lower_wide(Vector<float> v) { return _mm256_cvtps_pd(_mm256_castps256_ps128(v)); }
inline Vector<double> upper_wide(Vector<float> v) { return _mm256_cvtps_pd(_mm256_extractf128_ps(v, 1)); }
#else
inline Vector<double> lower_wide(Vector<float> v) { return {v[0], v[1], v[2], v[3]}; }
inline Vector<double> upper_wide(Vector<float> v) { return {v[4], v[5], v[6], v[7]}; }
#endif

template <typename T, typename F> inline void over_vectors(int64_t n, F f) {
  int64_t i = 0;
  for (; i + Lanes<T>::width <= n; i += Lanes<T>::width)
    f(Whole{}, i);
  if (i < n)
    f(Part{n - i}, i);
}

/// Stores past the cache; p lies on a border of 32 bytes.
template <typename T> inline void stream(T *p, Vector<T> v) {
#ifdef __AVX__
  _mm256_stream_si256(reinterpret_cast<__m256i *>(p), (__m256i)v);
#else
  Whole().store(p, v);
#endif
}

/// Where a kernel's results go: where there are more of them than the cache holds, past it, else into it. Past it, a
/// line is not read before it is written, nor drives out another; whoever reads the results would not find them anyway.
/// The results of one call; all are there when this object ends.
class Stores {
  bool past;

public:
  static constexpr int64_t kPast = 32 << 20; // bytes, as large as the cache

  /// `bytes` that the kernel writes and does not read.
  explicit Stores(int64_t bytes) : past(bytes >= kPast) {}
  Stores(const Stores &) = delete;
  bool go_past() const { return past; }
  ~Stores() {
#ifdef __AVX__
    if (past)
      _mm_sfence();
#endif
  }
  /// y[i] = f(at, i) for i < n, vectors as over_vectors has them.
  template <typename T, typename F> void write(T *y, int64_t n, F f) const {
    constexpr int64_t w = Lanes<T>::width;
    int64_t i = 0;
#ifdef __AVX__
    const int64_t head = (-reinterpret_cast<uintptr_t>(y) & 31) / sizeof(T); // up to a border of 32 bytes
    if (past && head < n) {
      if (head)
        Part{head}.store(y, f(Part{head}, 0));
      for (i = head; i + w <= n; i += w)
        stream<T>(y + i, f(Whole{}, i));
    }
#endif
    for (; i + w <= n; i += w)
      Whole().store(y + i, f(Whole{}, i));
    if (i < n)
      Part{n - i}.store(y + i, f(Part{n - i}, i));
  }
};

/// The larger (`largest`) or the smaller of two; b where either is NaN.
template <bool largest, typename T> inline Vector<T> extreme(Vector<T> a, Vector<T> b) {
#ifdef __AVX__
  if constexpr (std::is_same_v<T, float>)
    return largest ? _mm256_max_ps(a, b) : _mm256_min_ps(a, b);
  if constexpr (std::is_same_v<T, double>)
    return largest ? _mm256_max_pd(a, b) : _mm256_min_pd(a, b);
#endif
  return largest ? (a > b ? a : b) : (a < b ? a : b);
}
template <typename T> inline Vector<T> larger(Vector<T> a, Vector<T> b) { return extreme<true, T>(a, b); }

/// All ones in the lanes where a or b holds a NaN.
template <typename T> inline auto nan_in(Vector<T> a, Vector<T> b) {
  using Mask = decltype(a == b);
#ifdef __AVX__
  if constexpr (std::is_same_v<T, float>)
    return (Mask)_mm256_cmp_ps(a, b, _CMP_UNORD_Q);
  if constexpr (std::is_same_v<T, double>)
    return (Mask)_mm256_cmp_pd(a, b, _CMP_UNORD_Q);
#endif
  return std::is_integral_v<T> ? Mask{} : Mask((a != a) | (b != b));
}
/// Bit l: whether lane l of a mask has ones.
template <typename T, typename Mask> inline unsigned bits_of(Mask mask) {
#ifdef __AVX__
  if constexpr (sizeof(T) == 4)
    return static_cast<unsigned>(_mm256_movemask_ps((__m256)mask));
  if constexpr (sizeof(T) == 8)
    return static_cast<unsigned>(_mm256_movemask_pd((__m256d)mask));
#endif
  unsigned bits = 0;
  for (int64_t l = 0; l < Lanes<T>::width; ++l)
    bits |= unsigned(mask[l] != 0) << l;
  return bits;
}

/// The lanes of one vector, combined by halves: combine(a, b) lane by lane.
template <typename T, typename F> inline T across(Vector<T> v, F combine) {
  if constexpr (Lanes<T>::width == 8) {
    v = combine(v, __builtin_shufflevector(v, v, 4, 5, 6, 7, 0, 1, 2, 3));
    v = combine(v, __builtin_shufflevector(v, v, 2, 3, 0, 1, 6, 7, 4, 5));
    v = combine(v, __builtin_shufflevector(v, v, 1, 0, 3, 2, 5, 4, 7, 6));
  } else {
    static_assert(Lanes<T>::width == 4);
    v = combine(v, __builtin_shufflevector(v, v, 2, 3, 0, 1));
    v = combine(v, __builtin_shufflevector(v, v, 1, 0, 3, 2));
  }
  return v[0];
}
template <typename T> inline T sum_across(Vector<T> v) {
  return across<T>(v, [](Vector<T> a, Vector<T> b) { return a + b; });
}

/// exp of differences from a maximum: x up to 88, of which inf gives NaN. As math::exp, but the error grows with |x|,
/// as the result gets smaller: below 2e-7 + 1.4e-8 |x|.
inline Vector<float> exp_down(Vector<float> x) {
  typedef int32_t Bits __attribute__((vector_size(32)));
  constexpr float shift = math::detail::kExpShift;
  x = larger<float>(every(-88.0f), x); // whose 2^n is 0
  Vector<float> t = x * math::detail::kLog2e + shift;
  Vector<float> f = x * math::detail::kLog2e - (t - shift);
  Vector<float> p = every(math::detail::kExp2[0]);
  for (int i = 1; i < 6; ++i)
    p = p * f + math::detail::kExp2[i];
  return p * (Vector<float>)((Bits)t << 23);
}
inline Vector<double> exp_down(Vector<double> x) {
  for (int64_t l = 0; l < Lanes<double>::width; ++l)
    x[l] = math::exp(x[l]);
  return x;
}

/// The largest of x[0 .. n); -inf for n = 0; where NaN are among them, anything.
template <typename T> inline T largest_number(const T *x, int64_t n) {
  using L = Lanes<T>;
  const T none = -std::numeric_limits<T>::infinity();
  Vector<T> a = every(none), b = a, c = a, d = a;
  int64_t i = 0;
  for (; i + 4 * L::width <= n; i += 4 * L::width) {
    a = larger<T>(a, Whole().load(x + i)), b = larger<T>(b, Whole().load(x + i + L::width));
    c = larger<T>(c, Whole().load(x + i + 2 * L::width)), d = larger<T>(d, Whole().load(x + i + 3 * L::width));
  }
  for (; i + L::width <= n; i += L::width)
    a = larger<T>(a, Whole().load(x + i));
  a = larger<T>(larger<T>(a, b), larger<T>(c, d));
  T best = across<T>(a, larger<T>);
  for (; i < n; ++i)
    best = x[i] > best ? x[i] : best;
  return best;
}

} // namespace echelon::runtime::detail
