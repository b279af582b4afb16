// Reductions over the middle axis. With inner = 1 a row is reduced in vector lanes; else rows of `inner` values are
// combined lane by lane, sums by halves (pairwise) so that their error grows with log n.
#include "runtime/kernels/Reduce.h"
#include "runtime/kernels/Elementwise.h"
#include "runtime/kernels/cpu/BlockedSum.h"
#include <type_traits>

namespace echelon::runtime {
namespace {

constexpr int64_t kTile = 1024; // columns

/// sum[j] = sum[j] + x[0][j] + ... + x[k - 1][j], in this order.
template <int k, typename T> void addFew(T *sum, const T *x, int64_t stride, int64_t width) {
  detail::over_vectors<T>(width, [&](auto at, int64_t j) {
    detail::Vector<T> v = at.load(sum + j);
    for (int i = 0; i < k; ++i) {
      __builtin_prefetch(x + (i + k) * stride + j, 0, 2); // the rows that come next, into the L2 cache
      v += at.load(x + i * stride + j);
    }
    at.store(sum + j, v);
  });
}

/// sum[j] += x[0][j] + ... + x[n - 1][j], j < width <= kTile, rows `stride` apart.
template <typename T> void addRows(T *sum, const T *x, int64_t n, int64_t stride, int64_t width) {
  if (n <= 32) {
    for (; n >= 8; n -= 8, x += 8 * stride)
      addFew<8>(sum, x, stride, width);
    for (; n > 0; --n, x += stride)
      addFew<1>(sum, x, stride, width);
    return;
  }
  alignas(64) T half[kTile] = {};
  auto take = [&] {
    for (int64_t j = 0; j < width; ++j)
      sum[j] += half[j];
  };
  addRows(half, x, n / 2, stride, width);
  take();
  std::fill_n(half, width, T(0));
  addRows(half, x + n / 2 * stride, n - n / 2, stride, width);
  take();
}

/// y[j] = the extreme of y[j] and k rows of x; NaN where there is one.
template <bool largest, int k, typename T> void takeFew(T *y, const T *x, int64_t inner) {
  detail::over_vectors<T>(inner, [&](auto at, int64_t j) {
    detail::Vector<T> v = at.load(y + j); // a NaN here stays, see larger
    auto nan = detail::nan_in<T>(v, v);
    for (int i = 0; i < k; ++i) {
      __builtin_prefetch(x + (i + k) * inner + j, 0, 2); // the rows that come next, into the L2 cache
      detail::Vector<T> p = at.load(x + i * inner + j);
      v = detail::extreme<largest, T>(p, v);
      nan |= detail::nan_in<T>(p, p);
    }
    at.store(y + j, nan ? detail::every(std::numeric_limits<T>::quiet_NaN()) : v);
  });
}

template <bool largest, typename T> void reduceExtreme(T *y, const T *x, int64_t outer, int64_t n, int64_t inner) {
  for (int64_t o = 0; o < outer; ++o, y += inner, x += n * inner) {
    if (inner == 1) {
      *y = detail::extreme_of<largest>(x, n);
      continue;
    }
    std::fill_n(y, inner, detail::extreme_of<largest, T>(x, 0));
    int64_t i = 0;
    for (; i + 8 <= n; i += 8)
      takeFew<largest, 8>(y, x + i * inner, inner);
    for (; i < n; ++i)
      takeFew<largest, 1>(y, x + i * inner, inner);
  }
}

/// Whether a beats b; a NaN beats all else, equal values beat nothing.
template <bool largest, typename T> bool beats(T a, T b) { return (largest ? a > b : a < b) || (a != a && b == b); }

/// The first i with x[i] = v, or for a NaN the first NaN. It is there.
template <typename T> int64_t placeOf(T v, const T *x, int64_t n) {
  using L = detail::Lanes<T>;
  constexpr int64_t w = L::width;
  const bool isNumber = v == v;
  const auto wanted = detail::every(v);
  auto isIt = [&](int64_t i) {
    const auto p = detail::Whole().load(x + i);
    return isNumber ? p == wanted : p != p;
  };
  int64_t i = 0;
  while (i + 4 * w <= n && !detail::bits_of<T>((isIt(i) | isIt(i + w)) | (isIt(i + 2 * w) | isIt(i + 3 * w))))
    i += 4 * w;
  for (; i + w <= n; i += w)
    if (unsigned bits = detail::bits_of<T>(isIt(i)))
      return i + __builtin_ctz(bits);
  while (isNumber ? x[i] != v : x[i] == x[i])
    ++i;
  return i;
}

template <typename T> struct Placed {
  T value;
  int64_t place;
};
/// In one pass over memory: the extreme of each block, then its place in the block that won. n >= 1.
template <bool largest, typename T> Placed<T> extremeOfRow(const T *x, int64_t n) {
  constexpr int64_t block = 1024;
  int64_t from = 0;
  T best = detail::extreme_of<largest>(x, std::min(block, n));
  for (int64_t i = block; i < n; i += block) {
    T v = detail::extreme_of<largest>(x + i, std::min(block, n - i));
    if (beats<largest>(v, best))
      best = v, from = i;
  }
  return {best, from + placeOf(best, x + from, std::min(block, n - from))};
}

/// best[j], place[j]: the extreme so far and where it was, and now k rows of x more, the first of which is row `first`.
template <bool largest, int k, typename T, typename Index>
void placeFew(T *best, Index *place, const T *x, int64_t inner, int64_t width, int64_t first) {
  detail::over_vectors<T>(width, [&](auto at, int64_t j) {
    auto v = at.load(best + j);
    auto where = at.load(place + j);
    for (int i = 0; i < k; ++i) {
      __builtin_prefetch(x + (i + k) * inner + j, 0, 2); // the rows that come next, into the L2 cache
      const auto p = at.load(x + i * inner + j);
      const auto better = (largest ? p > v : p < v) | ((p != p) & (v == v));
      v = better ? p : v;
      where = better ? detail::every(static_cast<Index>(first + i)) : where;
    }
    at.store(best + j, v);
    at.store(place + j, where);
  });
}

/// Over `width` <= kTile columns of n rows, `inner` apart.
template <bool largest, typename T>
void extremeOfColumns(T *value, int32_t *index, const T *x, int64_t n, int64_t inner, int64_t width, int32_t offset) {
  using Index = std::conditional_t<sizeof(T) == 8, int64_t, int32_t>; // as wide as a T
  alignas(64) T best[kTile];
  alignas(64) Index place[kTile] = {};
  std::copy_n(x, width, best);
  int64_t i = 1;
  for (; i + 8 <= n; i += 8)
    placeFew<largest, 8>(best, place, x + i * inner, inner, width, i);
  for (; i < n; ++i)
    placeFew<largest, 1>(best, place, x + i * inner, inner, width, i);
  if (value)
    std::copy_n(best, width, value);
  for (int64_t j = 0; j < width; ++j)
    index[j] = static_cast<int32_t>(place[j]) + offset;
}

template <bool largest, typename T>
void extremeWithIndex(T *value, int32_t *index, const T *x, int64_t outer, int64_t n, int64_t inner, int32_t offset) {
  for (int64_t o = 0; o < outer; ++o, x += n * inner)
    for (int64_t j = 0; j < inner; j += kTile) {
      T *best = value ? value + o * inner + j : nullptr;
      int32_t *at = index + o * inner + j;
      if (inner == 1) {
        auto [v, place] = extremeOfRow<largest>(x, n);
        if (best)
          *best = v;
        *at = static_cast<int32_t>(place) + offset;
      } else {
        extremeOfColumns<largest>(best, at, x + j, n, inner, std::min(kTile, inner - j), offset);
      }
    }
}

} // namespace

template <typename T> void reduce_sum(T *y, const T *x, int64_t outer, int64_t n, int64_t inner, bool accumulate) {
  if (!accumulate)
    std::fill_n(y, outer * inner, T(0));
  for (int64_t o = 0; o < outer; ++o, y += inner, x += n * inner) {
    if (inner == 1) {
      if constexpr (std::is_integral_v<T>) {
        for (int64_t i = 0; i < n; ++i)
          *y += x[i];
      } else {
        *y += static_cast<T>(detail::sum_of(x, n));
      }
      continue;
    }
    for (int64_t j = 0; j < inner; j += kTile) {
      T sum[kTile] = {};
      int64_t width = std::min(kTile, inner - j);
      addRows(sum, x + j, n, inner, width);
      for (int64_t l = 0; l < width; ++l)
        y[j + l] += sum[l];
    }
  }
}

template <typename T> void reduce_max(T *y, const T *x, int64_t outer, int64_t n, int64_t inner) {
  reduceExtreme<true>(y, x, outer, n, inner);
}
template <typename T> void reduce_min(T *y, const T *x, int64_t outer, int64_t n, int64_t inner) {
  reduceExtreme<false>(y, x, outer, n, inner);
}
template <typename T> void argmax(int32_t *index, const T *x, int64_t outer, int64_t n, int64_t inner) {
  extremeWithIndex<true, T>(nullptr, index, x, outer, n, inner, 0);
}
template <typename T>
void max_with_index(T *value, int32_t *index, const T *x, int64_t outer, int64_t n, int64_t inner, int32_t offset) {
  extremeWithIndex<true>(value, index, x, outer, n, inner, offset);
}
template <typename T> void place_of_largest(int32_t *index, const T *found, int64_t parts, int64_t count) {
  for (int64_t j = 0; j < count; ++j) {
    T best = found[j], at = found[count + j];
    for (int64_t p = 1; p < parts; ++p) {
      const T v = found[2 * p * count + j], place = found[(2 * p + 1) * count + j];
      const bool same = v == best || (v != v && best != best);
      if (beats<true>(v, best) || (same && place < at))
        best = v, at = place;
    }
    index[j] = static_cast<int32_t>(at);
  }
}

namespace reference {
template <typename T> void reduce_sum(T *y, const T *x, int64_t outer, int64_t n, int64_t inner) {
  for (int64_t o = 0; o < outer; ++o)
    for (int64_t j = 0; j < inner; ++j) {
      long double sum = 0;
      for (int64_t i = 0; i < n; ++i)
        sum += x[(o * n + i) * inner + j];
      y[o * inner + j] = static_cast<T>(sum);
    }
}

template <bool largest, typename T>
void extreme(T *value, int32_t *index, const T *x, int64_t outer, int64_t n, int64_t inner, int32_t offset) {
  for (int64_t o = 0; o < outer; ++o)
    for (int64_t j = 0; j < inner; ++j) {
      int64_t best = 0;
      for (int64_t i = 1; i < n; ++i) {
        T a = x[(o * n + i) * inner + j], b = x[(o * n + best) * inner + j];
        if ((a != a && b == b) || (largest ? a > b : a < b))
          best = i;
      }
      value[o * inner + j] = x[(o * n + best) * inner + j];
      index[o * inner + j] = static_cast<int32_t>(best) + offset;
    }
}
template <typename T>
void max_with_index(T *value, int32_t *index, const T *x, int64_t outer, int64_t n, int64_t inner, int32_t offset) {
  extreme<true>(value, index, x, outer, n, inner, offset);
}
template <typename T>
void min_with_index(T *value, int32_t *index, const T *x, int64_t outer, int64_t n, int64_t inner, int32_t offset) {
  extreme<false>(value, index, x, outer, n, inner, offset);
}
} // namespace reference

#define INSTANTIATE(T)                                                                                                 \
  template void reduce_sum<T>(T *, const T *, int64_t, int64_t, int64_t, bool);                                        \
  template void reduce_max<T>(T *, const T *, int64_t, int64_t, int64_t);                                              \
  template void reduce_min<T>(T *, const T *, int64_t, int64_t, int64_t);                                              \
  template void argmax<T>(int32_t *, const T *, int64_t, int64_t, int64_t);                                            \
  template void max_with_index<T>(T *, int32_t *, const T *, int64_t, int64_t, int64_t, int32_t);                      \
  template void place_of_largest<T>(int32_t *, const T *, int64_t, int64_t);                                           \
  template void reference::reduce_sum<T>(T *, const T *, int64_t, int64_t, int64_t);                                   \
  template void reference::max_with_index<T>(T *, int32_t *, const T *, int64_t, int64_t, int64_t, int32_t);           \
  template void reference::min_with_index<T>(T *, int32_t *, const T *, int64_t, int64_t, int64_t, int32_t);
INSTANTIATE(float)
INSTANTIATE(double)
INSTANTIATE(int32_t)
#undef INSTANTIATE

} // namespace echelon::runtime
