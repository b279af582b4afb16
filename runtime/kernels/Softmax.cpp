// softmax, log_softmax, logsumexp: maximum, sum of exp(x - maximum), finish. With inner = 1 a row runs in vector lanes,
// all that happens to it while it is in the cache; else tiles of neighbouring columns go down the axis together.
#include "runtime/kernels/Softmax.h"
#include "runtime/kernels/ExpSums.h"
#include "runtime/kernels/Reduce.h"
#include <vector>

namespace echelon::runtime {
namespace {

using detail::every, detail::exp_down, detail::Vector, detail::over_vectors, detail::shift_of;

constexpr int64_t kTile = 64;

/// 1 / s, and 0 for an empty sum: softmax is 0 where everything is masked.
template <typename T> T inverseOf(T s) { return s == T(0) ? T(0) : T(1) / s; }

/// Calls body(o, j0, width) for every tile of neighbouring columns.
template <typename Body> void overTiles(int64_t outer, int64_t inner, Body body) {
  for (int64_t o = 0; o < outer; ++o)
    for (int64_t j = 0; j < inner; j += kTile)
      body(o, j, std::min(kTile, inner - j));
}

/// y = f(x[o, i, j], a[o, j], b[o, j]) over (outer, n, inner), where f also gets (o, i, j)'s flat position.
template <typename T, typename F> void overSlices(int64_t outer, int64_t n, int64_t inner, F f) {
  for (int64_t o = 0; o < outer; ++o)
    for (int64_t i = 0; i < n; ++i)
      for (int64_t j = 0; j < inner; ++j)
        f((o * n + i) * inner + j, o * inner + j);
}

/// sum[o, j] = sum over i of f(flat position, slice). inner > 1.
template <typename T, typename F> void sumSlices(T *sum, int64_t outer, int64_t n, int64_t inner, F f) {
  overTiles(outer, inner, [&](int64_t o, int64_t j0, int64_t width) {
    double total[kTile] = {};
    T block[kTile];
    for (int64_t i0 = 0; i0 < n; i0 += 16) {
      std::fill_n(block, width, T(0));
      for (int64_t i = i0; i < std::min(n, i0 + 16); ++i)
        for (int64_t j = 0; j < width; ++j)
          block[j] += f((o * n + i) * inner + j0 + j, o * inner + j0 + j);
      for (int64_t j = 0; j < width; ++j)
        total[j] += block[j];
    }
    for (int64_t j = 0; j < width; ++j)
      sum[o * inner + j0 + j] = static_cast<T>(total[j]);
  });
}

} // namespace

template <typename T> void local_sum_exp(T *s, const T *x, const T *m, int64_t outer, int64_t n, int64_t inner) {
  if (inner == 1) {
    for (int64_t o = 0; o < outer; ++o)
      s[o] = detail::exp_sum(x + o * n, n, shift_of(m[o]));
    return;
  }
  sumSlices(s, outer, n, inner, [&](int64_t at, int64_t slice) { return math::exp(x[at] - shift_of(m[slice])); });
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
  overSlices<T>(outer, n, inner, [&](int64_t at, int64_t slice) {
    y[at] = math::exp(x[at] - shift_of(m[slice])) * inverseOf(s[slice]);
  });
}

template <typename T>
void log_softmax_finish(T *y, const T *x, const T *m, const T *s, int64_t outer, int64_t n, int64_t inner) {
  std::vector<T> shift(outer * inner);
  for (int64_t i = 0; i < outer * inner; ++i)
    shift[i] = math::log(s[i]);
  overSlices<T>(outer, n, inner, [&](int64_t at, int64_t slice) { y[at] = (x[at] - m[slice]) - shift[slice]; });
}

template <typename T> void logsumexp_finish(T *lse, const T *m, const T *s, int64_t count) {
  for (int64_t i = 0; i < count; ++i)
    lse[i] = shift_of(m[i]) + math::log(s[i]);
}

template <typename T> void softmax(T *y, const T *x, int64_t outer, int64_t n, int64_t inner) {
  if (inner == 1) { // exp once, scale in place
    for (int64_t o = 0; o < outer; ++o, x += n, y += n) {
      const Vector<T> shift = every(shift_of(detail::largest_number(x, n)));
      T sum = static_cast<T>(detail::sum_of_vectors<T>(n, [&](auto at, int64_t i) {
        __builtin_prefetch(x + i + n); // the next row
        Vector<T> e = exp_down(at.load(x + i) - shift);
        at.store(y + i, e);
        return e;
      }));
      const Vector<T> factor = every(inverseOf(sum));
      over_vectors<T>(n, [&](auto at, int64_t i) { at.store(y + i, at.load(y + i) * factor); });
    }
    return;
  }
  overTiles(outer, inner, [&](int64_t o, int64_t j0, int64_t width) { // as above, a tile of columns
    T shift[kTile], sum[kTile];
    double total[kTile] = {};
    std::fill_n(shift, width, -std::numeric_limits<T>::infinity());
    for (int64_t i = 0; i < n; ++i) {
      const T *from = x + (o * n + i) * inner + j0;
      over_vectors<T>(width, [&](auto at, int64_t j) {
        __builtin_prefetch(from + 8 * inner + j);
        at.store(shift + j, detail::larger<T>(at.load(from + j), at.load(shift + j)));
      });
    }
    for (int64_t j = 0; j < width; ++j)
      shift[j] = shift_of(shift[j]);
    for (int64_t i0 = 0; i0 < n; i0 += 16) {
      std::fill_n(sum, width, T(0));
      for (int64_t i = i0; i < std::min(n, i0 + 16); ++i) {
        const T *from = x + (o * n + i) * inner + j0;
        T *to = y + (o * n + i) * inner + j0;
#pragma GCC ivdep
        for (int64_t j = 0; j < width; ++j) {
          T e = math::exp(from[j] - shift[j]);
          to[j] = e;
          sum[j] += e;
        }
      }
      for (int64_t j = 0; j < width; ++j)
        total[j] += sum[j];
    }
    for (int64_t j = 0; j < width; ++j)
      sum[j] = inverseOf(static_cast<T>(total[j]));
    for (int64_t i = 0; i < n; ++i) {
      T *to = y + (o * n + i) * inner + j0;
#pragma GCC ivdep
      for (int64_t j = 0; j < width; ++j)
        to[j] *= sum[j];
    }
  });
}

template <typename T> void log_softmax(T *y, const T *x, int64_t outer, int64_t n, int64_t inner) {
  if (inner == 1) {
    for (int64_t o = 0; o < outer; ++o, x += n, y += n) {
      auto [m, sum] = detail::maximum_and_exp_sum(x, n);
      const Vector<T> top = every(m), shift = every(math::log(sum));
      over_vectors<T>(n, [&](auto at, int64_t i) { at.store(y + i, at.load(x + i) - top - shift); });
    }
    return;
  }
  std::vector<T> m(outer * inner), s(outer * inner);
  reduce_max(m.data(), x, outer, n, inner);
  local_sum_exp(s.data(), x, m.data(), outer, n, inner);
  log_softmax_finish(y, x, m.data(), s.data(), outer, n, inner);
}

template <typename T> void logsumexp(T *lse, const T *x, int64_t outer, int64_t n, int64_t inner) {
  if (inner == 1) {
    for (int64_t o = 0; o < outer; ++o) {
      auto [m, sum] = detail::maximum_and_exp_sum(x + o * n, n);
      logsumexp_finish(lse + o, &m, &sum, 1);
    }
    return;
  }
  std::vector<T> m(outer * inner), s(outer * inner);
  reduce_max(m.data(), x, outer, n, inner);
  local_sum_exp(s.data(), x, m.data(), outer, n, inner);
  logsumexp_finish(lse, m.data(), s.data(), outer * inner);
}

template <typename T> void local_sum_product(T *t, const T *a, const T *b, int64_t outer, int64_t n, int64_t inner) {
  if (inner == 1) {
    for (int64_t o = 0; o < outer; ++o, a += n, b += n)
      t[o] = static_cast<T>(
          detail::sum_of_vectors<T>(n, [&](auto at, int64_t i) { return at.load(a + i) * at.load(b + i); }));
    return;
  }
  sumSlices(t, outer, n, inner, [&](int64_t at, int64_t) { return a[at] * b[at]; });
}

template <typename T>
void softmax_grad_finish(T *dx, const T *dy, const T *y, const T *t, int64_t outer, int64_t n, int64_t inner) {
  if (inner == 1) {
    for (int64_t o = 0; o < outer; ++o, dx += n, dy += n, y += n) {
      const Vector<T> sum = every(t[o]);
      over_vectors<T>(n, [&](auto at, int64_t i) { at.store(dx + i, at.load(y + i) * (at.load(dy + i) - sum)); });
    }
    return;
  }
  overSlices<T>(outer, n, inner, [&](int64_t at, int64_t slice) { dx[at] = y[at] * (dy[at] - t[slice]); });
}

template <typename T>
void log_softmax_grad_finish(T *dx, const T *dy, const T *y, const T *t, int64_t outer, int64_t n, int64_t inner) {
  if (inner == 1) {
    for (int64_t o = 0; o < outer; ++o, dx += n, dy += n, y += n) {
      const Vector<T> sum = every(t[o]);
      over_vectors<T>(n,
                      [&](auto at, int64_t i) { at.store(dx + i, at.load(dy + i) - exp_down(at.load(y + i)) * sum); });
    }
    return;
  }
  overSlices<T>(outer, n, inner, [&](int64_t at, int64_t slice) { dx[at] = dy[at] - math::exp(y[at]) * t[slice]; });
}

template <typename T> void softmax_grad(T *dx, const T *dy, const T *y, int64_t outer, int64_t n, int64_t inner) {
  std::vector<T> t(inner);
  const int64_t slice = n * inner;
  for (int64_t at = 0; at < outer * slice; at += slice) {
    local_sum_product(t.data(), dy + at, y + at, 1, n, inner);
    softmax_grad_finish(dx + at, dy + at, y + at, t.data(), 1, n, inner);
  }
}

template <typename T> void log_softmax_grad(T *dx, const T *dy, const T *y, int64_t outer, int64_t n, int64_t inner) {
  std::vector<T> t(inner);
  const int64_t slice = n * inner;
  for (int64_t at = 0; at < outer * slice; at += slice) {
    reduce_sum(t.data(), dy + at, 1, n, inner);
    log_softmax_grad_finish(dx + at, dy + at, y + at, t.data(), 1, n, inner);
  }
}

template <typename T>
void logsumexp_grad(T *dx, const T *d, const T *x, const T *lse, int64_t outer, int64_t n, int64_t inner) {
  overSlices<T>(outer, n, inner,
                [&](int64_t at, int64_t slice) { dx[at] = math::exp(x[at] - shift_of(lse[slice])) * d[slice]; });
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
  template void softmax_grad<T>(T *, const T *, const T *, int64_t, int64_t, int64_t);                                 \
  template void log_softmax<T>(T *, const T *, int64_t, int64_t, int64_t);                                             \
  template void log_softmax_grad<T>(T *, const T *, const T *, int64_t, int64_t, int64_t);                             \
  template void logsumexp<T>(T *, const T *, int64_t, int64_t, int64_t);                                               \
  template void logsumexp_grad<T>(T *, const T *, const T *, const T *, int64_t, int64_t, int64_t);                    \
  template void local_sum_exp<T>(T *, const T *, const T *, int64_t, int64_t, int64_t);                                \
  template void softmax_finish<T>(T *, const T *, const T *, const T *, int64_t, int64_t, int64_t);                    \
  template void log_softmax_finish<T>(T *, const T *, const T *, const T *, int64_t, int64_t, int64_t);                \
  template void logsumexp_finish<T>(T *, const T *, const T *, int64_t);                                               \
  template void local_sum_product<T>(T *, const T *, const T *, int64_t, int64_t, int64_t);                            \
  template void softmax_grad_finish<T>(T *, const T *, const T *, const T *, int64_t, int64_t, int64_t);               \
  template void log_softmax_grad_finish<T>(T *, const T *, const T *, const T *, int64_t, int64_t, int64_t);           \
  template void reference::softmax<T>(T *, const T *, int64_t, int64_t, int64_t);                                      \
  template void reference::logsumexp<T>(T *, const T *, int64_t, int64_t, int64_t);
INSTANTIATE(float)
INSTANTIATE(double)
#undef INSTANTIATE

} // namespace echelon::runtime
