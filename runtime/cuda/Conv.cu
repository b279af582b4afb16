// Convolutions as matrix products. columns: (from * window, out) of each sample, holds for each output the elements of
// x that its window sees.
//
//   y[b]   = w columns[b]           one batched product for the samples of a chunk
//   dx[b]  = sum over windows of w' dy[b]
//   dw     = dy columns'            over all samples of a chunk at once: columns as (from * window, samples, out), and
//                                   dy, as (to, samples, out), copied behind them
#include "runtime/cuda/Conv.h"
#include "runtime/cuda/Windows.h"

#include <algorithm>

namespace echelon::cuda {

namespace {

/// columns: (samples, from * window, out), or `byRows` (from * window, samples, out); x: (samples, from, in).
template <typename T>
__global__ void to_columns(T *columns, const T *x, int64_t count, int64_t samples, int32_t from, Windows w,
                           bool byRows) {
  if (element() < count) {
    const int64_t line = element() / w.out, inner = from * w.window;
    const int64_t row = byRows ? line / samples : line % inner, sample = byRows ? line % samples : line / inner;
    int32_t o = static_cast<int32_t>(element() % w.out), u = static_cast<int32_t>(row % w.window);
    const int64_t plane = sample * from + row / w.window;
    int64_t at = 0, step = 1;
    bool inside = true;
    UNROLL for (int k = 3; k >= 0; --k) {
      const Window &d = w.d[k];
      const int32_t i = o % d.out * d.stride + u % d.window - d.padLow;
      inside &= i >= 0 && i < d.in;
      at += i * step;
      step *= d.in;
      o /= d.out;
      u /= d.window;
    }
    columns[element()] = inside ? x[plane * w.in + at] : T(0);
  }
}

/// dx: (samples, from, in), each element the sum of those of columns: (samples, from * window, out), that come from it.
template <typename T> __global__ void add_columns(T *dx, const T *columns, int64_t count, Windows w) {
  if (element() < count) {
    const int64_t plane = element() / w.in;
    const int32_t here = static_cast<int32_t>(element() % w.in);
    int32_t coordinate[4], rest = here;
    UNROLL for (int k = 3; k >= 0; --k) {
      coordinate[k] = rest % w.d[k].in + w.d[k].padLow;
      rest /= w.d[k].in;
    }
    Span spans[4];
    spans_at(w, here, true, spans, covering);
    const T *from = columns + plane * w.window * w.out;
    T sum = T(0);
    for (int32_t o0 = spans[0].lo; o0 < spans[0].hi; ++o0)
      for (int32_t o1 = spans[1].lo; o1 < spans[1].hi; ++o1)
        for (int32_t o2 = spans[2].lo; o2 < spans[2].hi; ++o2)
          for (int32_t o3 = spans[3].lo; o3 < spans[3].hi; ++o3) {
            const int64_t u = ((static_cast<int64_t>(coordinate[0] - o0 * w.d[0].stride) * w.d[1].window +
                                (coordinate[1] - o1 * w.d[1].stride)) *
                                   w.d[2].window +
                               (coordinate[2] - o2 * w.d[2].stride)) *
                                  w.d[3].window +
                              (coordinate[3] - o3 * w.d[3].stride);
            sum += from[u * w.out + ((o0 * w.d[1].out + o1) * w.d[2].out + o2) * w.d[3].out + o3];
          }
    dx[element()] = sum;
  }
}

/// by: (to, samples, out) from dy: (samples, to, out).
template <typename T>
__global__ void by_channels(T *by, const T *dy, int64_t count, int64_t samples, int64_t to, int64_t out) {
  if (element() < count) {
    const int64_t line = element() / out;
    by[element()] = dy[(line % samples * to + line / samples) * out + element() % out];
  }
}

struct Convolution {
  Blas &blas;
  Stream stream;
  const ConvShape &shape;
  ConvColumns c;
  Windows w;
  int64_t chunk; // samples

  Convolution(Blas &blas, Stream stream, const ConvShape &shape, ConvKind kind, int64_t scratchCount)
      : blas(blas), stream(stream), shape(shape), c(shape, kind), w("convolution", shape.dims, shape.rank) {
    chunk = c.samplesIn(scratchCount, shape.batch);
    if (chunk < 1 && shape.batch > 0)
      runtime::fail("convolution with less scratch than a sample takes");
  }
  /// Calls body(first sample, samples) for each chunk.
  template <typename Body> void overChunks(Body body) const {
    for (int64_t b = 0; b < shape.batch; b += chunk)
      body(b, std::min(chunk, shape.batch - b));
  }
  template <typename T> void toColumns(T *columns, const T *x, int64_t samples, bool byRows) const {
    const int64_t count = samples * c.inner * c.out;
    if (count > 0)
      launch("conv", to_columns<T>, cover(count), stream, out(columns, count), in(x, samples * shape.from * c.in),
             count, samples, static_cast<int32_t>(shape.from), w, byRows);
  }
};

} // namespace

template <typename T>
void conv(Blas &blas, Stream stream, T *y, const T *x, const T *w, const ConvShape &shape, T *scratch,
          int64_t scratchCount, Compute compute) {
  const Convolution by(blas, stream, shape, ConvKind::forward, scratchCount);
  const ConvColumns &c = by.c;
  if (c.isPointwise)
    return gemm_batched(blas, stream, y, w, x, shape.to, c.out, c.inner, Form::nn, c.inner, c.out, c.out,
                        {{shape.batch, shape.to * c.out, 0, c.inner * c.out}}, 1.0, 0.0, compute);
  by.overChunks([&](int64_t b, int64_t samples) {
    by.toColumns(scratch, x + b * shape.from * c.in, samples, false);
    gemm_batched(blas, stream, y + b * shape.to * c.out, w, scratch, shape.to, c.out, c.inner, Form::nn, c.inner, c.out,
                 c.out, {{samples, shape.to * c.out, 0, c.inner * c.out}}, 1.0, 0.0, compute);
  });
}

template <typename T>
void conv_grad_data(Blas &blas, Stream stream, T *dx, const T *dy, const T *w, const ConvShape &shape, T *scratch,
                    int64_t scratchCount, Compute compute) {
  const Convolution by(blas, stream, shape, ConvKind::gradData, scratchCount);
  const ConvColumns &c = by.c;
  if (c.isPointwise)
    return gemm_batched(blas, stream, dx, w, dy, c.inner, c.out, shape.to, Form::tn, c.inner, c.out, c.out,
                        {{shape.batch, c.inner * c.out, 0, shape.to * c.out}}, 1.0, 0.0, compute);
  by.overChunks([&](int64_t b, int64_t samples) {
    gemm_batched(blas, stream, scratch, w, dy + b * shape.to * c.out, c.inner, c.out, shape.to, Form::tn, c.inner,
                 c.out, c.out, {{samples, c.inner * c.out, 0, shape.to * c.out}}, 1.0, 0.0, compute);
    const int64_t count = samples * shape.from * c.in;
    if (count > 0)
      launch("conv_grad_data", add_columns<T>, cover(count), stream, out(dx + b * shape.from * c.in, count),
             in(scratch, samples * c.inner * c.out), count, by.w);
  });
}

template <typename T>
void conv_grad_weights(Blas &blas, Stream stream, T *dw, const T *x, const T *dy, const ConvShape &shape, T *scratch,
                       int64_t scratchCount, Compute compute) {
  const Convolution by(blas, stream, shape, ConvKind::gradWeights, scratchCount);
  const ConvColumns &c = by.c;
  if (shape.batch <= 0 || c.out <= 0) // 0
    return gemm(blas, stream, dw, dy, x, shape.to, c.inner, 0, Form::nn);
  T *cotangents = scratch + (by.chunk * c.inner * c.out + 15) / 16 * 16;
  by.overChunks([&](int64_t b, int64_t samples) {
    by.toColumns(scratch, x + b * shape.from * c.in, samples, true);
    const int64_t length = samples * c.out, count = shape.to * length;
    if (count > 0)
      launch("conv_grad_weights", by_channels<T>, cover(count), stream, out(cotangents, count),
             in(dy + b * shape.to * c.out, count), count, samples, shape.to, c.out);
    gemm(blas, stream, dw, cotangents, scratch, shape.to, c.inner, length, Form::nt, b > 0 ? 1.0 : 0.0, compute);
  });
}

#define INSTANTIATE(T)                                                                                                 \
  template void conv<T>(Blas &, Stream, T *, const T *, const T *, const ConvShape &, T *, int64_t, Compute);          \
  template void conv_grad_data<T>(Blas &, Stream, T *, const T *, const T *, const ConvShape &, T *, int64_t,          \
                                  Compute);                                                                            \
  template void conv_grad_weights<T>(Blas &, Stream, T *, const T *, const T *, const ConvShape &, T *, int64_t,       \
                                     Compute);
INSTANTIATE(float)
INSTANTIATE(double)
#undef INSTANTIATE

} // namespace echelon::cuda
