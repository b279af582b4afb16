// Pooling, a plane at a time. A row of outputs is made at once: for each element of the window, lowest first, one loop
// along the row over the outputs for which this element lies inside x.
#include "runtime/kernels/Pool.h"
#include "runtime/launch/Fail.h"
#include <algorithm>
#include <cstring>
#include <limits>
#include <string>
#include <type_traits>
#include <utility>
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
template <typename T, int lanes> using Values = typename Several<T, lanes>::Values;
template <typename T, int lanes> using Places = typename Several<T, lanes>::Places;

template <int lanes, typename T> Values<T, lanes> load(const T *from) {
  Values<T, lanes> v;
  std::memcpy(&v, from, sizeof v);
  return v;
}
/// 0, step, 2 * step, ...
template <int lanes> Places<float, lanes> stepsOf(int step) {
  static constexpr int32_t count[8] = {0, 1, 2, 3, 4, 5, 6, 7};
  Places<float, lanes> steps;
  std::memcpy(&steps, count, sizeof steps);
  return steps * step;
}
/// Every second of the 2 * lanes elements of a and b, from `first` on.
template <int first, typename V, int... lane> V everySecond(V a, V b, std::integer_sequence<int, lane...>) {
  return __builtin_shufflevector(a, b, (2 * lane + first)...);
}
/// from[c], from[c + stride], ...: of a window's column c for neighbouring outputs. Reads no element that comes after
/// the last of these and after the window's second column.
template <int stride, int lanes, typename T> Values<T, lanes> column(const T *from, int c) {
  static_assert(stride == 1 || stride == 2, "loads are written for these");
  if constexpr (lanes == 1 || stride == 1)
    return load<lanes>(from + c);
  else {
    const T *start = from + (c ? c - 1 : 0);
    const Values<T, lanes> a = load<lanes>(start), b = load<lanes>(start + lanes);
    using All = std::make_integer_sequence<int, lanes>;
    return c ? everySecond<1>(a, b, All()) : everySecond<0>(a, b, All());
  }
}

/// Calls body(lanes, first output of a row) so that all `outs` of them are done, as many at once as fit; the last ones
/// perhaps again.
template <int most, typename Body> void inLanes(int64_t outs, Body body) {
  if constexpr (most > 1)
    if (outs < most)
      return inLanes<most == 8 ? 4 : 1>(outs, body);
  for (int64_t o = 0; o + most <= outs; o += most)
    body(std::integral_constant<int, most>(), o);
  if (outs % most)
    body(std::integral_constant<int, most>(), outs - most);
}
template <typename T> constexpr int kLanes = 32 / sizeof(T);

/// `lanes` neighbouring outputs at once, windows of rows by columns elements that lie inside x, `width` apart.
template <int rows, int columns, int stride, int lanes, typename T>
void maxpoolLanes(T *y, int32_t *index, const T *from, int32_t corner, int64_t width) {
  Values<T, lanes> best = column<stride, lanes>(from, 0);
  const Places<T, lanes> first = stepsOf<lanes>(stride) + corner;
  Places<T, lanes> at = first;
  for (int r = 0; r < rows; ++r)
    for (int c = 0; c < columns; ++c) {
      const Values<T, lanes> v = column<stride, lanes>(from + r * width, c);
      const auto better = (v > best) | ((v != v) & (best == best)); // a NaN wins, the first one
      best = better ? v : best;
      const Places<T, lanes> here = first + static_cast<int32_t>(r * width + c);
      at = __builtin_convertvector(better, Places<T, lanes>) ? here : at;
    }
  std::memcpy(y, &best, sizeof best);
  if (index)
    std::memcpy(index, &at, sizeof at);
}

template <int rows, int columns, int stride, int lanes, typename T>
void avgpoolLanes(T *y, const T *from, int64_t width, T factor) {
  Values<T, lanes> sum = {};
  for (int r = 0; r < rows; ++r)
    for (int c = 0; c < columns; ++c)
      sum += column<stride, lanes>(from + r * width, c);
  sum *= factor;
  std::memcpy(y, &sum, sizeof sum);
}

/// Calls body(lanes, plane, first output within it, first element of x within it) for all outputs, several of a row at
/// once.
template <typename T, typename Body> void overLanes(const Padded &p, int64_t planes, Body body) {
  const int64_t outs = p.d[3].out();
  for (int64_t plane = 0; plane < planes; ++plane)
    for (int64_t o2 = 0; o2 < p.d[2].out(); ++o2)
      inLanes<kLanes<T>>(outs, [&](auto lanes, int64_t o3) {
        body(lanes, plane, o2 * outs + o3, o2 * p.d[2].stride * p.d[3].in + o3 * p.d[3].stride);
      });
}

/// Calls body(rows, columns, stride) with the window's sizes as constants where it is a usual small one without
/// padding, over one dimension or two; else returns false.
template <typename Body> bool withUsualWindow(const Padded &p, Body body) {
  for (const WindowDim &w : p.d)
    if (w.padLow != 0 || (w.out() - 1) * w.stride + w.window > w.in)
      return false;
  if (p.d[0].window != 1 || p.d[0].in != 1 || p.d[1].window != 1 || p.d[1].in != 1 || p.d[3].stride > 2)
    return false;
  auto inside = [&](auto rows, auto columns) {
    if (p.d[2].window != rows || p.d[3].window != columns)
      return false;
    if (p.d[3].stride == 1)
      body(rows, columns, std::integral_constant<int, 1>());
    else
      body(rows, columns, std::integral_constant<int, 2>());
    return true;
  };
  constexpr std::integral_constant<int, 1> one;
  constexpr std::integral_constant<int, 2> two;
  constexpr std::integral_constant<int, 3> three;
  return inside(two, two) || inside(three, three) || inside(one, two) || inside(one, three);
}

/// Whether windows of two columns lie side by side, and rows of them one below the other or in one row.
bool tiles(const Padded &p) {
  return withUsualWindow(p, [](auto, auto, auto) {}) && p.d[3].window == 2 && p.d[3].stride == 2 &&
         p.d[2].window == p.d[2].stride;
}

/// a[0], b[0], a[1], b[1], ...
template <typename V, int... lane> void storeInTurns(void *to, V a, V b, std::integer_sequence<int, lane...>) {
  constexpr int lanes = sizeof...(lane);
  const V low = __builtin_shufflevector(a, b, (lane / 2 + lane % 2 * lanes)...),
          high = __builtin_shufflevector(a, b, (lanes / 2 + lane / 2 + lane % 2 * lanes)...);
  std::memcpy(to, &low, sizeof low);
  std::memcpy(static_cast<char *>(to) + sizeof low, &high, sizeof high);
}

/// A derivative where the windows tile x: part(lanes, first output, place of an element of its window within the plane)
/// is what this element gets, and so those of the windows beside; what no window covers gets 0.
template <typename T, typename Part> void spread(T *dx, const Padded &p, int64_t planes, Part part) {
  const int64_t width = p.d[3].in, outs = p.d[3].out(), rows = p.d[2].window, covered = rows * p.d[2].out() * width;
  overLanes<T>(p, planes, [&](auto lanes, int64_t plane, int64_t o, int64_t corner) {
    for (int64_t r = 0; r < rows; ++r) {
      const int64_t out = plane * p.out + o, at = corner + r * width;
      T *to = dx + plane * p.in + at;
      const Values<T, lanes> left = part(lanes, out, at), right = part(lanes, out, at + 1);
      if constexpr (lanes == 1)
        to[0] = left[0], to[1] = right[0];
      else
        storeInTurns(to, left, right, std::make_integer_sequence<int, lanes>());
    }
  });
  for (int64_t plane = 0; plane < planes; ++plane, dx += p.in) {
    for (int64_t row = 0; 2 * outs < width && row < covered; row += width)
      std::fill(dx + row + 2 * outs, dx + row + width, T(0));
    std::fill(dx + covered, dx + p.in, T(0));
  }
}

} // namespace

template <typename T> void maxpool(T *y, int32_t *index, const T *x, const PoolShape &shape) {
  Padded p(shape);
  const auto usual = [&](auto rows, auto columns, auto stride) {
    overLanes<T>(p, shape.planes, [&](auto lanes, int64_t plane, int64_t o, int64_t corner) {
      maxpoolLanes<rows, columns, stride, lanes>(y + plane * p.out + o, index ? index + plane * p.out + o : nullptr,
                                                 x + plane * p.in + corner, static_cast<int32_t>(corner), p.d[3].in);
    });
  };
  if (withUsualWindow(p, usual))
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
  if (tiles(p))
    return spread(dx, p, shape.planes, [&](auto lanes, int64_t o, int64_t at) {
      const Values<T, lanes> d = load<lanes>(dy + o);
      const Places<T, lanes> here = stepsOf<lanes>(2) + static_cast<int32_t>(at);
      Places<T, lanes> places;
      std::memcpy(&places, index + o, sizeof places);
      using Mask = decltype(d == d);
      return __builtin_convertvector(places == here, Mask) ? d : Values<T, lanes>{};
    });
  std::fill_n(dx, shape.planes * p.in, T(0));
  for (int64_t plane = 0; plane < shape.planes; ++plane)
    for (int64_t o = plane * p.out; o < (plane + 1) * p.out; ++o)
      dx[plane * p.in + index[o]] += dy[o];
}

template <typename T> void avgpool(T *y, const T *x, const PoolShape &shape) {
  Padded p(shape);
  const T factor = share<T>(p);
  const auto usual = [&](auto rows, auto columns, auto stride) {
    overLanes<T>(p, shape.planes, [&](auto lanes, int64_t plane, int64_t o, int64_t corner) {
      avgpoolLanes<rows, columns, stride, lanes>(y + plane * p.out + o, x + plane * p.in + corner, p.d[3].in, factor);
    });
  };
  if (withUsualWindow(p, usual))
    return;
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
  if (tiles(p))
    return spread(dx, p, shape.planes, [&](auto lanes, int64_t o, int64_t) { return load<lanes>(dy + o) * factor; });
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

/// Calls body(output position, start of its plane, place in the plane) for every element of every window, lowest first;
/// padding is left out.
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
