// Pooling, a plane at a time. A row of outputs is made at once: for each element of the window, lowest first, one loop
// along the row over the outputs for which this element lies inside x.
#include "runtime/kernels/Pool.h"
#include "runtime/launch/Fail.h"
#include <algorithm>
#include <limits>
#include <string>
#include <type_traits>
#include <vector>

namespace echelon::runtime {
namespace {

/// The same pooling with leading dimensions of size 1, so that there are always four.
struct Padded {
  WindowDim d[4] = {{1, 1, 1, 0, 0}, {1, 1, 1, 0, 0}, {1, 1, 1, 0, 0}, {1, 1, 1, 0, 0}};
  int64_t in = 1, out = 1;
  explicit Padded(const PoolShape &shape) {
    if (shape.rank < 1 || shape.rank > kMaxWindowRank)
      fail("pooling over " + std::to_string(shape.rank) + " window dimensions; 1 to 4 are supported");
    std::copy(shape.dims, shape.dims + shape.rank, d + 4 - shape.rank);
    for (const WindowDim &w : d)
      in *= w.in, out *= w.out();
  }
};

struct Range {
  int64_t lo, hi;
  int64_t size() const { return hi - lo; }
};

/// Which elements of x window `out` covers.
Range covered(const WindowDim &w, int64_t out) {
  int64_t lo = out * w.stride - w.padLow;
  return {std::max<int64_t>(0, lo), std::min(w.in, lo + w.window)};
}

/// For which outputs element `u` of the window lies inside x.
Range outputs(const WindowDim &w, int64_t u) {
  int64_t shift = w.padLow - u; // out * stride >= shift and out * stride < in + shift
  int64_t lo = shift <= 0 ? 0 : (shift + w.stride - 1) / w.stride;
  int64_t hi = w.in + shift <= 0 ? 0 : (w.in + shift - 1) / w.stride + 1;
  return {std::min(lo, w.out()), std::min(std::max(lo, hi), w.out())};
}

/// Calls body(first output position of the row, covered[3]) for every row of outputs of a plane.
template <typename Body> void overRows(const Padded &p, Body body) {
  int64_t o = 0, width = p.d[3].out();
  Range r[3];
  for (int64_t o0 = 0; o0 < p.d[0].out(); ++o0)
    for (int64_t o1 = 0; o1 < p.d[1].out(); ++o1)
      for (int64_t o2 = 0; o2 < p.d[2].out(); ++o2, o += width) {
        r[0] = covered(p.d[0], o0), r[1] = covered(p.d[1], o1), r[2] = covered(p.d[2], o2);
        body(o, r);
      }
}

/// Calls body(outputs, position of x at output 0) for every element of the windows of a row of outputs, lowest first.
template <typename Body> void overElements(const Padded &p, const Range *r, Body body) {
  for (int64_t i0 = r[0].lo; i0 < r[0].hi; ++i0)
    for (int64_t i1 = r[1].lo; i1 < r[1].hi; ++i1)
      for (int64_t i2 = r[2].lo; i2 < r[2].hi; ++i2)
        for (int64_t u = 0; u < p.d[3].window; ++u)
          body(outputs(p.d[3], u), ((i0 * p.d[1].in + i1) * p.d[2].in + i2) * p.d[3].in + u - p.d[3].padLow);
}

/// Calls f(stride) with the usual strides as constants, so that loops over them vectorise.
template <typename F> void withStride(int64_t stride, F f) {
  if (stride == 1)
    f(std::integral_constant<int64_t, 1>());
  else if (stride == 2)
    f(std::integral_constant<int64_t, 2>());
  else
    f(stride);
}

/// How many elements of x each output's window covers, as a factor.
template <typename T> std::vector<T> shares(const Padded &p) {
  std::vector<T> share(p.out);
  overRows(p, [&](int64_t o, const Range *r) {
    for (int64_t o3 = 0; o3 < p.d[3].out(); ++o3)
      share[o + o3] = T(1) / static_cast<T>(r[0].size() * r[1].size() * r[2].size() * covered(p.d[3], o3).size());
  });
  return share;
}

} // namespace

template <typename T> void maxpool(T *y, int32_t *index, const T *x, const PoolShape &shape) {
  Padded p(shape);
  int64_t width = p.d[3].out();
  std::vector<int32_t> places(index ? 0 : width); // where the caller wants none
  for (int64_t plane = 0; plane < shape.planes; ++plane, x += p.in, y += p.out)
    overRows(p, [&](int64_t o, const Range *r) {
      T *best = y + o;
      int32_t *at = index ? index + plane * p.out + o : places.data();
      std::fill_n(best, width, -std::numeric_limits<T>::infinity());
      std::fill_n(at, width, -1);
      withStride(p.d[3].stride, [&](auto stride) {
        overElements(p, r, [&](Range outs, int64_t start) {
          const T *from = x + start;
#pragma GCC ivdep
          for (int64_t o3 = outs.lo; o3 < outs.hi; ++o3) {
            T v = from[o3 * stride], b = best[o3];
            bool better = (at[o3] < 0) | (v > b) | ((v != v) & (b == b)); // a NaN wins
            best[o3] = better ? v : b;
            at[o3] = better ? static_cast<int32_t>(start + o3 * stride) : at[o3];
          }
        });
      });
    });
}

template <typename T> void maxpool_grad(T *dx, const T *dy, const int32_t *index, const PoolShape &shape) {
  Padded p(shape);
  std::fill_n(dx, shape.planes * p.in, T(0));
  for (int64_t plane = 0; plane < shape.planes; ++plane)
    for (int64_t o = plane * p.out; o < (plane + 1) * p.out; ++o)
      dx[plane * p.in + index[o]] += dy[o];
}

template <typename T> void avgpool(T *y, const T *x, const PoolShape &shape) {
  Padded p(shape);
  std::vector<T> share = shares<T>(p);
  std::fill_n(y, shape.planes * p.out, T(0));
  for (int64_t plane = 0; plane < shape.planes; ++plane, x += p.in, y += p.out) {
    overRows(p, [&](int64_t o, const Range *r) {
      withStride(p.d[3].stride, [&](auto stride) {
        overElements(p, r, [&](Range outs, int64_t start) {
          const T *from = x + start;
          T *sum = y + o;
#pragma GCC ivdep
          for (int64_t o3 = outs.lo; o3 < outs.hi; ++o3)
            sum[o3] += from[o3 * stride];
        });
      });
    });
    for (int64_t o = 0; o < p.out; ++o)
      y[o] *= share[o];
  }
}

template <typename T> void avgpool_grad(T *dx, const T *dy, const PoolShape &shape) {
  Padded p(shape);
  std::vector<T> share = shares<T>(p);
  std::fill_n(dx, shape.planes * p.in, T(0));
  for (int64_t plane = 0; plane < shape.planes; ++plane, dx += p.in, dy += p.out)
    overRows(p, [&](int64_t o, const Range *r) {
      withStride(p.d[3].stride, [&](auto stride) {
        overElements(p, r, [&](Range outs, int64_t start) {
          T *to = dx + start;
#pragma GCC ivdep
          for (int64_t o3 = outs.lo; o3 < outs.hi; ++o3)
            to[o3 * stride] += dy[o + o3] * share[o + o3];
        });
      });
    });
}

#define INSTANTIATE(T)                                                                                                 \
  template void maxpool<T>(T *, int32_t *, const T *, const PoolShape &);                                              \
  template void maxpool_grad<T>(T *, const T *, const int32_t *, const PoolShape &);                                   \
  template void avgpool<T>(T *, const T *, const PoolShape &);                                                         \
  template void avgpool_grad<T>(T *, const T *, const PoolShape &);
INSTANTIATE(float)
INSTANTIATE(double)
#undef INSTANTIATE

} // namespace echelon::runtime
