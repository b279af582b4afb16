// softmax, logsumexp: maximum, sum of exp(x - maximum), finish. With inner = 1 a row runs in vector lanes,
// all that happens to it while it is in the cache; else tiles of neighbouring columns go down the axis together, twice.
#include "runtime/kernels/Softmax.h"
#include "runtime/kernels/cpu/ExpSums.h"
#include <vector>

namespace echelon::runtime {
namespace {

using detail::every, detail::exp_down, detail::Vector, detail::over_vectors, detail::shift_of, detail::Stores;

constexpr int64_t kTile = 1024;   // columns
constexpr int64_t kRows = 16;     // whose logarithms are taken together
constexpr int64_t kAheadRows = 2; // asked for

/// 1 / s, and 0 for an empty sum: softmax is 0 where everything is masked.
template <typename T> T inverseOf(T s) { return s == T(0) ? T(0) : T(1) / s; }

/// Calls body(at, width) for every tile of neighbouring columns; `at` is its first element.
template <typename Body> void overTiles(int64_t outer, int64_t n, int64_t inner, Body body) {
  for (int64_t o = 0; o < outer; ++o)
    for (int64_t j = 0; j < inner; j += kTile)
      body(o * n * inner + j, std::min(kTile, inner - j));
}

/// f(place of (o, i, j), place of (o, j)) over (outer, n, inner).
template <typename F> void overSlices(int64_t outer, int64_t n, int64_t inner, F f) {
  for (int64_t o = 0; o < outer; ++o)
    for (int64_t i = 0; i < n; ++i)
      for (int64_t j = 0; j < inner; ++j)
        f((o * n + i) * inner + j, o * inner + j);
}

/// Sums of eight rows in T, these in double.
struct ColumnSums {
  alignas(32) double total[kTile + 8] = {};
  template <typename T> void add(int64_t j, Vector<T> v) {
    each(j, v, [](Vector<double> &sum, Vector<double> part) { sum += part; });
  }
  template <typename T> void scale(int64_t j, Vector<T> v) {
    each(j, v, [](Vector<double> &sum, Vector<double> factor) { sum *= factor; });
  }

private:
  template <typename F> void each(int64_t j, Vector<double> v, F f) {
    f(*reinterpret_cast<Vector<double> *>(total + j), v);
  }
  template <typename F> void each(int64_t j, Vector<float> v, F f) {
    auto *sums = reinterpret_cast<Vector<double> *>(total + j);
    f(sums[0], detail::lower_wide(v));
    f(sums[1], detail::upper_wide(v));
  }
};

/// sum[j] = sum over i < n of f(at, i, j), the vectors of columns j of row i; width <= kTile.
template <typename T, typename F> void sumColumns(T *sum, int64_t n, int64_t width, F f) {
  ColumnSums sums;
  int64_t i = 0;
  for (; i + 8 <= n; i += 8)
    over_vectors<T>(width, [&](auto at, int64_t j) {
      Vector<T> v = f(at, i, j);
      for (int64_t k = 1; k < 8; ++k)
        v += f(at, i + k, j);
      sums.add<T>(j, v);
    });
  for (; i < n; ++i)
    over_vectors<T>(width, [&](auto at, int64_t j) { sums.add<T>(j, f(at, i, j)); });
  for (int64_t j = 0; j < width; ++j)
    sum[j] = static_cast<T>(sums.total[j]);
}

template <typename T> Vector<T> shiftOf(Vector<T> m) {
  return m == every(-std::numeric_limits<T>::infinity()) ? Vector<T>{} : m;
}

/// The maximum of each of `width` <= kTile columns, `inner` apart, and the sum of exp(x - maximum), in one pass over
/// memory: of eight rows at a time the maxima, then the sums, scaled where a maximum has grown.
template <typename T> void maximaAndExpSums(T *top, T *sum, const T *x, int64_t n, int64_t inner, int64_t width) {
  ColumnSums sums;
  std::fill_n(top, width, -std::numeric_limits<T>::infinity());
  auto rows = [&](auto count, int64_t i) {
    over_vectors<T>(width, [&](auto at, int64_t j) {
      Vector<T> v[decltype(count)::value];
      const Vector<T> before = at.load(top + j);
      Vector<T> m = before;
      for (int k = 0; k < count; ++k) {
        __builtin_prefetch(x + (i + count + k) * inner + j, 0, 2); // the rows that come next, into the L2 cache
        v[k] = at.load(x + (i + k) * inner + j);
        m = detail::larger<T>(v[k], m);
      }
      const Vector<T> shift = shiftOf<T>(m);
      if (detail::bits_of<T>(m != before)) {
        sums.scale<T>(j, exp_down(before - shift));
        at.store(top + j, m);
      }
      Vector<T> e = exp_down(v[0] - shift);
      for (int k = 1; k < count; ++k)
        e += exp_down(v[k] - shift);
      sums.add<T>(j, e);
    });
  };
  int64_t i = 0;
  for (; i + 8 <= n; i += 8)
    rows(std::integral_constant<int, 8>(), i);
  for (; i < n; ++i)
    rows(std::integral_constant<int, 1>(), i);
  for (int64_t j = 0; j < width; ++j)
    sum[j] = static_cast<T>(sums.total[j]);
}

/// Shifts and sums of exponentials of `few` rows at a time, so that their logarithms are taken together:
/// body(first, rows, shift, sum). x: (outer, n).
template <typename T, typename Body> void overRows(const T *x, int64_t outer, int64_t n, int64_t few, Body body) {
  T shift[kRows], sum[kRows];
  for (int64_t o = 0; o < outer; o += few) {
    const int64_t rows = std::min(few, outer - o);
    for (int64_t r = 0; r < rows; ++r) {
      const auto [s, e] = detail::shifted_exp_sum(x + (o + r) * n, n);
      shift[r] = s, sum[r] = e;
    }
    body(o, rows, shift, sum);
  }
}

/// softmax of columns: exp is taken twice, which is less than what a third pass over memory would be.
template <typename T>
void softmaxOfColumns(T *y, const T *x, int64_t n, int64_t inner, int64_t width, const Stores &stores) {
  alignas(64) T shift[kTile], factor[kTile];
  maximaAndExpSums(shift, factor, x, n, inner, width);
  for (int64_t j = 0; j < width; ++j) {
    shift[j] = shift_of(shift[j]);
    factor[j] = inverseOf(factor[j]);
  }
  for (int64_t i = 0; i < n; ++i)
    stores.write(y + i * inner, width, [&](auto at, int64_t j) {
      const T *from = x + i * inner + j;
      __builtin_prefetch(from + kAheadRows * inner, 0, 2);
      return exp_down(at.load(from) - at.load(shift + j)) * at.load(factor + j);
    });
}

} // namespace

template <typename T> void local_sum_exp(T *s, const T *x, const T *m, int64_t outer, int64_t n, int64_t inner) {
  if (inner == 1) {
    for (int64_t o = 0; o < outer; ++o)
      s[o] = detail::exp_sum(x + o * n, n, shift_of(m[o]));
    return;
  }
  overTiles(outer, n, inner, [&](int64_t first, int64_t width) {
    const int64_t slice = first / (n * inner) * inner + first % inner;
    sumColumns(s + slice, n, width, [&](auto at, int64_t i, int64_t j) {
      return exp_down(at.load(x + first + i * inner + j) - shiftOf<T>(at.load(m + slice + j)));
    });
  });
}

template <typename T>
void softmax_finish(T *y, const T *x, const T *m, const T *s, int64_t outer, int64_t n, int64_t inner) {
  if (inner == 1) {
    for (int64_t o = 0; o < outer; ++o) {
      const Vector<T> shift = every(shift_of(m[o])), factor = every(inverseOf(s[o]));
      const T *from = x + o * n;
      T *to = y + o * n;
      over_vectors<T>(n, [&](auto at, int64_t i) { at.store(to + i, exp_down(at.load(from + i) - shift) * factor); });
    }
    return;
  }
  overSlices(outer, n, inner,
             [&](int64_t at, int64_t slice) { y[at] = math::exp(x[at] - shift_of(m[slice])) * inverseOf(s[slice]); });
}

template <typename T> void logsumexp_finish(T *lse, T *shift, T *log_sum, const T *m, const T *s, int64_t count) {
  for (int64_t i = 0; i < count; ++i) {
    const T near = shift_of(m[i]), log = math::log(s[i]);
    lse[i] = near + log;
    shift[i] = near;
    log_sum[i] = s[i] == T(0) ? -log : log; // inf where everything is masked
  }
}

template <typename T> void softmax(T *y, const T *x, int64_t outer, int64_t n, int64_t inner) {
  const Stores stores(x == y ? 0 : outer * n * inner * sizeof(T));
  if (inner == 1) { // exp once, scale in place, or where results go past the cache, beside it
    alignas(64) T few[kTile];
    for (int64_t o = 0; o < outer; ++o, x += n, y += n) {
      T *e = stores.go_past() && n <= kTile ? few : y;
      const Vector<T> shift = every(shift_of(detail::largest_number(x, n)));
      T sum = static_cast<T>(detail::sum_of_vectors<T>(n, [&](auto at, int64_t i) {
        __builtin_prefetch(x + i + n); // the next row
        Vector<T> v = exp_down(at.load(x + i) - shift);
        at.store(e + i, v);
        return v;
      }));
      const Vector<T> factor = every(inverseOf(sum));
      auto scaled = [&](auto at, int64_t i) { return at.load(e + i) * factor; };
      if (e == y)
        over_vectors<T>(n, [&](auto at, int64_t i) { at.store(y + i, scaled(at, i)); });
      else
        stores.write(y, n, scaled);
    }
    return;
  }
  overTiles(outer, n, inner,
            [&](int64_t first, int64_t width) { softmaxOfColumns(y + first, x + first, n, inner, width, stores); });
}

template <typename T>
void logsumexp(T *lse, T *shift, T *log_sum, const T *x, int64_t outer, int64_t n, int64_t inner) {
  if (inner == 1) {
    overRows(x, outer, n, kRows, [&](int64_t first, int64_t rows, const T *top, const T *sum) {
      logsumexp_finish(lse + first, shift + first, log_sum + first, top, sum, rows);
    });
    return;
  }
  alignas(64) T top[kTile], sum[kTile];
  overTiles(outer, n, inner, [&](int64_t first, int64_t width) {
    maximaAndExpSums(top, sum, x + first, n, inner, width);
    const int64_t slice = first / (n * inner) * inner + first % inner;
    logsumexp_finish(lse + slice, shift + slice, log_sum + slice, top, sum, width);
  });
}

namespace reference {
template <typename T> void logsumexp(T *lse, const T *x, int64_t outer, int64_t n, int64_t inner) {
  for (int64_t o = 0; o < outer; ++o)
    for (int64_t j = 0; j < inner; ++j) {
      const T *slice = x + o * n * inner + j;
      double m = -INFINITY, sum = 0;
      for (int64_t i = 0; i < n; ++i)
        m = std::max(m, double(slice[i * inner]));
      for (int64_t i = 0; i < n; ++i)
        sum += slice[i * inner] == -INFINITY ? 0 : std::exp(slice[i * inner] - m);
      lse[o * inner + j] = static_cast<T>(sum == 0 ? -INFINITY : m + std::log(sum));
    }
}
template <typename T> void softmax(T *y, const T *x, int64_t outer, int64_t n, int64_t inner) {
  std::vector<T> lse(outer * inner);
  logsumexp(lse.data(), x, outer, n, inner);
  for (int64_t o = 0; o < outer; ++o)
    for (int64_t i = 0; i < n; ++i)
      for (int64_t j = 0; j < inner; ++j) {
        int64_t at = (o * n + i) * inner + j;
        y[at] = x[at] == -INFINITY ? T(0) : static_cast<T>(std::exp(double(x[at]) - double(lse[o * inner + j])));
      }
}
} // namespace reference

#define INSTANTIATE(T)                                                                                                 \
  template void softmax<T>(T *, const T *, int64_t, int64_t, int64_t);                                                 \
  template void logsumexp<T>(T *, T *, T *, const T *, int64_t, int64_t, int64_t);                                     \
  template void local_sum_exp<T>(T *, const T *, const T *, int64_t, int64_t, int64_t);                                \
  template void softmax_finish<T>(T *, const T *, const T *, const T *, int64_t, int64_t, int64_t);                    \
  template void logsumexp_finish<T>(T *, T *, T *, const T *, const T *, int64_t);                                     \
  template void reference::softmax<T>(T *, const T *, int64_t, int64_t, int64_t);                                      \
  template void reference::logsumexp<T>(T *, const T *, int64_t, int64_t, int64_t);
INSTANTIATE(float)
INSTANTIATE(double)
#undef INSTANTIATE

} // namespace echelon::runtime
