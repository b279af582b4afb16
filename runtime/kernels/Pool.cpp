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

/// What a mean multiplies a window's sum by: padding counts as zeros.
template <typename T> T share(const Padded &p) {
  return T(1) / static_cast<T>(p.d[0].window * p.d[1].window * p.d[2].window * p.d[3].window);
}

template <typename T, int lanes> struct Several {
  typedef T Values __attribute__((vector_size(lanes * sizeof(T))));
  typedef int32_t Places __attribute__((vector_size(lanes * sizeof(int32_t))));
};

/// `lanes` neighbouring outputs at once, windows of rows by columns elements that lie inside x, `width` apart.
template <int rows, int columns, int stride, int lanes, typename T>
void maxpoolLanes(T *y, int32_t *index, const T *from, int32_t corner, int64_t width) {
  typename Several<T, lanes>::Values best, v;
  typename Several<T, lanes>::Places at, here;
  for (int l = 0; l < lanes; ++l) {
    best[l] = from[l * stride];
    at[l] = corner + l * stride;
  }
  here = at;
  for (int r = 0; r < rows; ++r)
    for (int c = 0; c < columns; ++c) {
      for (int l = 0; l < lanes; ++l)
        v[l] = from[r * width + c + l * stride];
      auto better = (v > best) | ((v != v) & (best == best)); // a NaN wins, the first one
      best = better ? v : best;
      auto placed = here + static_cast<int32_t>(r * width + c);
      at = __builtin_convertvector(better, typename Several<T, lanes>::Places) ? placed : at;
    }
  for (int l = 0; l < lanes; ++l)
    y[l] = best[l];
  if (index)
    for (int l = 0; l < lanes; ++l)
      index[l] = at[l];
}

/// Pooling over two dimensions (or one), windows inside x: four outputs of a row at once, the last four perhaps again.
template <int rows, int columns, int stride, typename T>
void maxpoolInside(T *y, int32_t *index, const T *x, const Padded &p, int64_t planes) {
  const int64_t width = p.d[3].in, outs = p.d[3].out(), down = p.d[2].stride * width;
  for (int64_t plane = 0; plane < planes; ++plane, x += p.in)
    for (int64_t o2 = 0; o2 < p.d[2].out(); ++o2, y += outs, index += index ? outs : 0) {
      const int64_t corner = o2 * down;
      auto outputs = [&](auto lanes, int64_t o3) {
        const int64_t start = corner + o3 * stride;
        maxpoolLanes<rows, columns, stride, lanes>(y + o3, index ? index + o3 : nullptr, x + start,
                                                   static_cast<int32_t>(start), width);
      };
      int64_t o3 = 0;
      for (; o3 + 4 <= outs; o3 += 4)
        outputs(std::integral_constant<int, 4>(), o3);
      if (o3 < outs && outs >= 4)
        outputs(std::integral_constant<int, 4>(), outs - 4);
      for (; outs < 4 && o3 < outs; ++o3)
        outputs(std::integral_constant<int, 1>(), o3);
    }
}

/// Whether the windows are the usual small ones without padding; then the work is done.
template <typename T> bool maxpoolUsual(T *y, int32_t *index, const T *x, const Padded &p, int64_t planes) {
  for (const WindowDim &w : p.d)
    if (w.padLow != 0 || (w.out() - 1) * w.stride + w.window > w.in)
      return false;
  if (p.d[0].window != 1 || p.d[0].in != 1 || p.d[1].window != 1 || p.d[1].in != 1)
    return false;
  auto inside = [&](auto rows, auto columns) {
    if (p.d[3].stride == 1)
      maxpoolInside<rows, columns, 1>(y, index, x, p, planes);
    else
      maxpoolInside<rows, columns, 2>(y, index, x, p, planes);
  };
  if (p.d[3].stride > 2)
    return false;
  auto is = [&](int64_t rows, int64_t columns) { return p.d[2].window == rows && p.d[3].window == columns; };
  if (is(2, 2))
    inside(std::integral_constant<int, 2>(), std::integral_constant<int, 2>());
  else if (is(3, 3))
    inside(std::integral_constant<int, 3>(), std::integral_constant<int, 3>());
  else if (is(1, 2))
    inside(std::integral_constant<int, 1>(), std::integral_constant<int, 2>());
  else if (is(1, 3))
    inside(std::integral_constant<int, 1>(), std::integral_constant<int, 3>());
  else
    return false;
  return true;
}

} // namespace

template <typename T> void maxpool(T *y, int32_t *index, const T *x, const PoolShape &shape) {
  Padded p(shape);
  if (maxpoolUsual(y, index, x, p, shape.planes))
    return;
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
  const T factor = share<T>(p);
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
      y[o] *= factor;
  }
}

template <typename T> void avgpool_grad(T *dx, const T *dy, const PoolShape &shape) {
  Padded p(shape);
  const T factor = share<T>(p);
  std::fill_n(dx, shape.planes * p.in, T(0));
  for (int64_t plane = 0; plane < shape.planes; ++plane, dx += p.in, dy += p.out)
    overRows(p, [&](int64_t o, const Range *r) {
      withStride(p.d[3].stride, [&](auto stride) {
        overElements(p, r, [&](Range outs, int64_t start) {
          T *to = dx + start;
#pragma GCC ivdep
          for (int64_t o3 = outs.lo; o3 < outs.hi; ++o3)
            to[o3 * stride] += dy[o + o3] * factor;
        });
      });
    });
}

namespace reference {

/// Calls body(output position, start of its plane, place in the plane) for every element of every window, lowest first; padding is left out.
template <typename Body> void overWindows(const PoolShape &shape, Body body) {
  Padded p(shape);
  int64_t o = 0;
  for (int64_t plane = 0; plane < shape.planes; ++plane)
    for (int64_t o0 = 0; o0 < p.d[0].out(); ++o0)
      for (int64_t o1 = 0; o1 < p.d[1].out(); ++o1)
        for (int64_t o2 = 0; o2 < p.d[2].out(); ++o2)
          for (int64_t o3 = 0; o3 < p.d[3].out(); ++o3, ++o) {
            const Range r[4] = {covered(p.d[0], o0), covered(p.d[1], o1), covered(p.d[2], o2), covered(p.d[3], o3)};
            for (int64_t i0 = r[0].lo; i0 < r[0].hi; ++i0)
              for (int64_t i1 = r[1].lo; i1 < r[1].hi; ++i1)
                for (int64_t i2 = r[2].lo; i2 < r[2].hi; ++i2)
                  for (int64_t i3 = r[3].lo; i3 < r[3].hi; ++i3)
                    body(o, plane * p.in, ((i0 * p.d[1].in + i1) * p.d[2].in + i2) * p.d[3].in + i3);
          }
}

template <typename T> void maxpool(T *y, int32_t *index, const T *x, const PoolShape &shape) {
  std::fill_n(index, shape.planes * Padded(shape).out, -1);
  overWindows(shape, [&](int64_t o, int64_t plane, int64_t i) {
    const T v = x[plane + i];
    if (index[o] < 0 || v > y[o] || (v != v && y[o] == y[o]))
      y[o] = v, index[o] = static_cast<int32_t>(i);
  });
}

template <typename T> void avgpool(T *y, const T *x, const PoolShape &shape) {
  Padded p(shape);
  std::vector<double> sums(shape.planes * p.out);
  overWindows(shape, [&](int64_t o, int64_t plane, int64_t i) { sums[o] += double(x[plane + i]); });
  for (size_t o = 0; o < sums.size(); ++o)
    y[o] = static_cast<T>(sums[o] * share<double>(p));
}
} // namespace reference

#define INSTANTIATE(T)                                                                                                 \
  template void maxpool<T>(T *, int32_t *, const T *, const PoolShape &);                                              \
  template void maxpool_grad<T>(T *, const T *, const int32_t *, const PoolShape &);                                   \
  template void avgpool<T>(T *, const T *, const PoolShape &);                                                         \
  template void avgpool_grad<T>(T *, const T *, const PoolShape &);                                                    \
  template void reference::maxpool<T>(T *, int32_t *, const T *, const PoolShape &);                                   \
  template void reference::avgpool<T>(T *, const T *, const PoolShape &);
INSTANTIATE(float)
INSTANTIATE(double)
#undef INSTANTIATE

} // namespace echelon::runtime
