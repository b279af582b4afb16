// Convolutions: directly, by Winograd's products, in oneDNN, or (choose_conv) one matrix product a sample with the
// matrix of its windows, columns: (from * window, out), made (im2col) or added back (col2im) by plain loops.
#include "runtime/kernels/Conv.h"
#include "runtime/kernels/Gemm.h"
#include "runtime/kernels/cpu/ConvDirect.h"
#include "runtime/kernels/cpu/ConvDnnl.h"
#include "runtime/kernels/cpu/ConvWinograd.h"
#include "runtime/kernels/cpu/Threads.h"
#include "runtime/launch/Fail.h"
#include <algorithm>
#include <type_traits>
#include <vector>

namespace echelon::runtime {
namespace {

using Padded = detail::FourDims;

void check(const ConvShape &shape) {
  if (shape.rank < 1 || shape.rank > kMaxWindowRank)
    fail("convolution over " + std::to_string(shape.rank) + " window dimensions; 1 to 4 are supported");
}

/// Calls body(column row u, out position o, in position or -1) for one channel.
template <typename Body> void overWindows(const Padded &p, Body body) {
  int64_t u = 0;
  const WindowDim *d = p.d;
  for (int64_t u0 = 0; u0 < d[0].window; ++u0)
    for (int64_t u1 = 0; u1 < d[1].window; ++u1)
      for (int64_t u2 = 0; u2 < d[2].window; ++u2)
        for (int64_t u3 = 0; u3 < d[3].window; ++u3, ++u) {
          int64_t o = 0;
          auto at = [&](int k, int64_t out, int64_t shift) { return out * d[k].stride + shift - d[k].padLow; };
          for (int64_t o0 = 0; o0 < d[0].out(); ++o0)
            for (int64_t o1 = 0; o1 < d[1].out(); ++o1)
              for (int64_t o2 = 0; o2 < d[2].out(); ++o2) {
                int64_t i0 = at(0, o0, u0), i1 = at(1, o1, u1), i2 = at(2, o2, u2);
                bool inside = i0 >= 0 && i0 < d[0].in && i1 >= 0 && i1 < d[1].in && i2 >= 0 && i2 < d[2].in;
                int64_t base = ((i0 * d[1].in + i1) * d[2].in + i2) * d[3].in;
                for (int64_t o3 = 0; o3 < d[3].out(); ++o3, ++o) {
                  int64_t i3 = at(3, o3, u3);
                  body(u, o, inside && i3 >= 0 && i3 < d[3].in ? base + i3 : -1);
                }
              }
        }
}

/// The windows of one sample, in scratch memory if they fit.
template <typename T> class Columns {
  std::vector<T> own;
  T *place;

public:
  Columns(int64_t count, T *scratch, int64_t scratchCount)
      : own(count <= scratchCount ? 0 : count), place(count <= scratchCount ? scratch : own.data()) {}
  T *data() { return place; }
};

/// Calls row(out position of the row's begin, in position of the row's begin or -1, shift u3 of the last dimension) for
/// every row of columns, in order.
template <typename Row> void overRows(const Padded &p, Row row) {
  const WindowDim *d = p.d;
  int64_t o = 0;
  for (int64_t u0 = 0; u0 < d[0].window; ++u0)
    for (int64_t u1 = 0; u1 < d[1].window; ++u1)
      for (int64_t u2 = 0; u2 < d[2].window; ++u2)
        for (int64_t u3 = 0; u3 < d[3].window; ++u3)
          for (int64_t o0 = 0; o0 < d[0].out(); ++o0)
            for (int64_t o1 = 0; o1 < d[1].out(); ++o1)
              for (int64_t o2 = 0; o2 < d[2].out(); ++o2, o += d[3].out()) {
                auto at = [&](int k, int64_t out, int64_t shift) { return out * d[k].stride + shift - d[k].padLow; };
                int64_t i0 = at(0, o0, u0), i1 = at(1, o1, u1), i2 = at(2, o2, u2);
                bool inside = i0 >= 0 && i0 < d[0].in && i1 >= 0 && i1 < d[1].in && i2 >= 0 && i2 < d[2].in;
                row(o, inside ? ((i0 * d[1].in + i1) * d[2].in + i2) * d[3].in : -1, u3);
              }
}

template <typename T> void toColumns(T *columns, const T *x, int64_t from, const Padded &p) {
  const WindowDim &last = p.d[3];
  const int64_t length = last.out();
  for (int64_t f = 0; f < from; ++f, x += p.in, columns += p.window * p.out)
    overRows(p, [&](int64_t o, int64_t i, int64_t shift) {
      // Of the row, [begin, end) lies inside x.
      const int64_t first = shift - last.padLow, behind = last.in - first;
      const int64_t begin = i < 0 ? length : std::min(length, first < 0 ? (last.stride - 1 - first) / last.stride : 0);
      const int64_t end = i < 0 ? length : std::max(begin, std::min(length, (behind + last.stride - 1) / last.stride));
      T *row = columns + o;
      std::fill_n(row, begin, T(0));
      if (last.stride == 1)
        std::copy_n(x + i + first + begin, end - begin, row + begin);
      else
        for (int64_t at = begin; at < end; ++at)
          row[at] = x[i + first + at * last.stride];
      std::fill(row + end, row + length, T(0));
    });
}

template <typename T> void addColumns(T *x, const T *columns, int64_t from, const Padded &p) {
  for (int64_t f = 0; f < from; ++f, x += p.in, columns += p.window * p.out)
    overWindows(p, [&](int64_t u, int64_t o, int64_t i) {
      if (i >= 0)
        x[i] += columns[u * p.out + o];
    });
}

/// Done, unless it is to be done by columns. Our own kernels use one thread: with more, oneDNN is asked.
template <typename T>
bool doneAtOnce(ConvKind kind, T *src, T *weights, T *dst, const ConvShape &shape, T *scratch, int64_t scratchCount) {
  ConvWay way = choose_conv(kind, shape, sizeof(T));
  if (way != ConvWay::columns && threads() > 1 && conv_in_library(shape, sizeof(T)))
    way = ConvWay::library;
  if (way == ConvWay::direct)
    detail::conv_direct(kind, src, weights, dst, shape, scratch, scratchCount);
  if (way == ConvWay::winograd)
    detail::conv_winograd(kind, src, weights, dst, shape, scratch, scratchCount);
  if constexpr (std::is_same_v<T, float>)
    if (way == ConvWay::library)
      detail::conv_dnnl(kind, src, weights, dst, shape, scratch, scratchCount);
  return way != ConvWay::columns;
}

} // namespace

template <typename T>
void conv(T *y, const T *x, const T *w, const ConvShape &shape, T *scratch, int64_t scratchCount) {
  check(shape);
  if (doneAtOnce(ConvKind::forward, const_cast<T *>(x), const_cast<T *>(w), y, shape, scratch, scratchCount))
    return;
  Padded p(shape);
  int64_t inner = shape.from * p.window;
  Columns<T> columns(inner * p.out, scratch, scratchCount);
  for (int64_t b = 0; b < shape.batch; ++b) {
    toColumns(columns.data(), x + b * shape.from * p.in, shape.from, p);
    gemm(y + b * shape.to * p.out, w, columns.data(), shape.to, p.out, inner);
  }
}

template <typename T>
void conv_grad_data(T *dx, const T *dy, const T *w, const ConvShape &shape, T *scratch, int64_t scratchCount) {
  check(shape);
  if (doneAtOnce(ConvKind::gradData, dx, const_cast<T *>(w), const_cast<T *>(dy), shape, scratch, scratchCount))
    return;
  Padded p(shape);
  int64_t inner = shape.from * p.window;
  Columns<T> columns(inner * p.out, scratch, scratchCount);
  std::fill_n(dx, shape.batch * shape.from * p.in, T(0));
  for (int64_t b = 0; b < shape.batch; ++b) {
    gemm(columns.data(), w, dy + b * shape.to * p.out, inner, p.out, shape.to, Form::tn);
    addColumns(dx + b * shape.from * p.in, columns.data(), shape.from, p);
  }
}

template <typename T>
void conv_grad_weights(T *dw, const T *x, const T *dy, const ConvShape &shape, T *scratch, int64_t scratchCount) {
  check(shape);
  if (doneAtOnce(ConvKind::gradWeights, const_cast<T *>(x), dw, const_cast<T *>(dy), shape, scratch, scratchCount))
    return;
  Padded p(shape);
  int64_t inner = shape.from * p.window;
  Columns<T> columns(inner * p.out, scratch, scratchCount);
  std::fill_n(dw, shape.to * inner, T(0));
  for (int64_t b = 0; b < shape.batch; ++b) {
    toColumns(columns.data(), x + b * shape.from * p.in, shape.from, p);
    gemm(dw, dy + b * shape.to * p.out, columns.data(), shape.to, inner, p.out, Form::nt, 1.0);
  }
}

namespace reference {

/// Calls body(y position, x position, w position) for every product of the convolution.
template <typename Body> void overProducts(const ConvShape &shape, Body body) {
  Padded p(shape);
  for (int64_t b = 0; b < shape.batch; ++b)
    for (int64_t t = 0; t < shape.to; ++t)
      for (int64_t f = 0; f < shape.from; ++f)
        overWindows(p, [&](int64_t u, int64_t o, int64_t i) {
          if (i >= 0)
            body((b * shape.to + t) * p.out + o, (b * shape.from + f) * p.in + i, (t * shape.from + f) * p.window + u);
        });
}

template <typename T> void conv(T *y, const T *x, const T *w, const ConvShape &shape) {
  Padded p(shape);
  std::vector<double> sum(shape.batch * shape.to * p.out);
  overProducts(shape, [&](int64_t yi, int64_t xi, int64_t wi) { sum[yi] += double(x[xi]) * double(w[wi]); });
  std::copy(sum.begin(), sum.end(), y);
}
template <typename T> void conv_grad_data(T *dx, const T *dy, const T *w, const ConvShape &shape) {
  Padded p(shape);
  std::vector<double> sum(shape.batch * shape.from * p.in);
  overProducts(shape, [&](int64_t yi, int64_t xi, int64_t wi) { sum[xi] += double(dy[yi]) * double(w[wi]); });
  std::copy(sum.begin(), sum.end(), dx);
}
template <typename T> void conv_grad_weights(T *dw, const T *x, const T *dy, const ConvShape &shape) {
  Padded p(shape);
  std::vector<double> sum(shape.to * shape.from * p.window);
  overProducts(shape, [&](int64_t yi, int64_t xi, int64_t wi) { sum[wi] += double(dy[yi]) * double(x[xi]); });
  std::copy(sum.begin(), sum.end(), dw);
}
} // namespace reference

#define INSTANTIATE(T)                                                                                                 \
  template void conv<T>(T *, const T *, const T *, const ConvShape &, T *, int64_t);                                   \
  template void conv_grad_data<T>(T *, const T *, const T *, const ConvShape &, T *, int64_t);                         \
  template void conv_grad_weights<T>(T *, const T *, const T *, const ConvShape &, T *, int64_t);                      \
  template void reference::conv<T>(T *, const T *, const T *, const ConvShape &);                                      \
  template void reference::conv_grad_data<T>(T *, const T *, const T *, const ConvShape &);                            \
  template void reference::conv_grad_weights<T>(T *, const T *, const T *, const ConvShape &);
INSTANTIATE(float)
INSTANTIATE(double)
#undef INSTANTIATE

} // namespace echelon::runtime
