// Pooling: a plane at a time, window by window; the window is cut to what lies inside x.
#include "runtime/kernels/Pool.h"
#include "runtime/launch/Fail.h"
#include <algorithm>
#include <string>

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
Range reach(const WindowDim &w, int64_t out) {
  int64_t lo = out * w.stride - w.padLow;
  return {std::max<int64_t>(0, lo), std::min(w.in, lo + w.window)};
}

/// Calls body(out position, ranges of the window) over a plane.
template <typename Body> void overWindows(const Padded &p, Body body) {
  int64_t o = 0;
  Range r[4];
  for (int64_t o0 = 0; o0 < p.d[0].out(); ++o0) {
    r[0] = reach(p.d[0], o0);
    for (int64_t o1 = 0; o1 < p.d[1].out(); ++o1) {
      r[1] = reach(p.d[1], o1);
      for (int64_t o2 = 0; o2 < p.d[2].out(); ++o2) {
        r[2] = reach(p.d[2], o2);
        for (int64_t o3 = 0; o3 < p.d[3].out(); ++o3, ++o) {
          r[3] = reach(p.d[3], o3);
          body(o, r);
        }
      }
    }
  }
}

/// Calls body(in position) over a window, lowest first.
template <typename Body> void overElements(const Padded &p, const Range *r, Body body) {
  for (int64_t i0 = r[0].lo; i0 < r[0].hi; ++i0)
    for (int64_t i1 = r[1].lo; i1 < r[1].hi; ++i1)
      for (int64_t i2 = r[2].lo; i2 < r[2].hi; ++i2)
        for (int64_t i3 = r[3].lo; i3 < r[3].hi; ++i3)
          body(((i0 * p.d[1].in + i1) * p.d[2].in + i2) * p.d[3].in + i3);
}

} // namespace

template <typename T> void maxpool(T *y, int32_t *index, const T *x, const PoolShape &shape) {
  Padded p(shape);
  for (int64_t plane = 0; plane < shape.planes; ++plane, x += p.in, y += p.out) {
    overWindows(p, [&](int64_t o, const Range *r) {
      int64_t best = -1;
      overElements(p, r, [&](int64_t i) {
        if (best < 0 || x[i] > x[best] || (x[i] != x[i] && x[best] == x[best])) // a NaN wins
          best = i;
      });
      y[o] = x[best];
      if (index)
        index[plane * p.out + o] = static_cast<int32_t>(best);
    });
  }
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
  for (int64_t plane = 0; plane < shape.planes; ++plane, x += p.in, y += p.out)
    overWindows(p, [&](int64_t o, const Range *r) {
      double sum = 0;
      overElements(p, r, [&](int64_t i) { sum += x[i]; });
      y[o] = static_cast<T>(sum / double(r[0].size() * r[1].size() * r[2].size() * r[3].size()));
    });
}

template <typename T> void avgpool_grad(T *dx, const T *dy, const PoolShape &shape) {
  Padded p(shape);
  std::fill_n(dx, shape.planes * p.in, T(0));
  for (int64_t plane = 0; plane < shape.planes; ++plane, dx += p.in, dy += p.out)
    overWindows(p, [&](int64_t o, const Range *r) {
      T share = dy[o] / static_cast<T>(r[0].size() * r[1].size() * r[2].size() * r[3].size());
      overElements(p, r, [&](int64_t i) { dx[i] += share; });
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
