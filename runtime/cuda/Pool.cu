// Pooling: a thread for each output looks at its window. Of the derivatives, a thread for each element of x looks at
// the windows that cover it, lowest first: nothing is added by two threads.
#include "runtime/cuda/Pool.h"
#include "runtime/cuda/Windows.h"

namespace echelon::cuda {

namespace {

template <typename T> __global__ void maxpool_windows(T *y, int32_t *index, const T *x, int64_t count, Windows w) {
  if (element() < count) {
    const int64_t plane = element() / w.out;
    const T *from = x + plane * w.in;
    Span spans[4];
    spans_at(w, static_cast<int32_t>(element() % w.out), false, spans, covered_by);
    T best = T(0);
    int32_t at = -1;
    over_spans(w, true, spans, [&](int32_t i) {
      const T v = from[i];
      if (at < 0 || v > best || (v != v && best == best)) { // a NaN wins
        best = v;
        at = i;
      }
    });
    y[element()] = best;
    if (index)
      index[element()] = at;
  }
}

template <typename T>
__global__ void maxpool_grad_elements(T *dx, const T *dy, const int32_t *index, int64_t count, Windows w) {
  if (element() < count) {
    const int64_t plane = element() / w.in;
    const int32_t here = static_cast<int32_t>(element() % w.in);
    Span spans[4];
    spans_at(w, here, true, spans, covering);
    T sum = T(0);
    over_spans(w, false, spans,
               [&](int32_t o) { sum += index[plane * w.out + o] == here ? dy[plane * w.out + o] : T(0); });
    dx[element()] = sum;
  }
}

template <typename T> __global__ void avgpool_windows(T *y, const T *x, int64_t count, Windows w, T share) {
  if (element() < count) {
    const T *from = x + element() / w.out * w.in;
    Span spans[4];
    spans_at(w, static_cast<int32_t>(element() % w.out), false, spans, covered_by);
    T sum = T(0);
    over_spans(w, true, spans, [&](int32_t i) { sum += from[i]; });
    y[element()] = sum * share;
  }
}

template <typename T> __global__ void avgpool_grad_elements(T *dx, const T *dy, int64_t count, Windows w, T share) {
  if (element() < count) {
    const T *from = dy + element() / w.in * w.out;
    Span spans[4];
    spans_at(w, static_cast<int32_t>(element() % w.in), true, spans, covering);
    T sum = T(0);
    over_spans(w, false, spans, [&](int32_t o) { sum += from[o]; });
    dx[element()] = sum * share;
  }
}

Windows windowsOf(const PoolShape &shape) { return Windows("pooling", shape.dims, shape.rank); }

} // namespace

template <typename T> void maxpool(Stream stream, T *y, int32_t *index, const T *x, const PoolShape &shape) {
  const Windows w = windowsOf(shape);
  const int64_t count = shape.planes * w.out;
  if (count > 0)
    launch("maxpool", maxpool_windows<T>, cover(count), stream, out(y, count), out(index, index ? count : 0),
           in(x, shape.planes * w.in), count, w);
}

template <typename T>
void maxpool_grad(Stream stream, T *dx, const T *dy, const int32_t *index, const PoolShape &shape) {
  const Windows w = windowsOf(shape);
  const int64_t count = shape.planes * w.in, outs = shape.planes * w.out;
  if (count > 0)
    launch("maxpool_grad", maxpool_grad_elements<T>, cover(count), stream, out(dx, count), in(dy, outs),
           in(index, outs), count, w);
}

template <typename T> void avgpool(Stream stream, T *y, const T *x, const PoolShape &shape) {
  const Windows w = windowsOf(shape);
  const int64_t count = shape.planes * w.out;
  if (count > 0)
    launch("avgpool", avgpool_windows<T>, cover(count), stream, out(y, count), in(x, shape.planes * w.in), count, w,
           T(1) / static_cast<T>(w.window));
}

template <typename T> void avgpool_grad(Stream stream, T *dx, const T *dy, const PoolShape &shape) {
  const Windows w = windowsOf(shape);
  const int64_t count = shape.planes * w.in;
  if (count > 0)
    launch("avgpool_grad", avgpool_grad_elements<T>, cover(count), stream, out(dx, count), in(dy, shape.planes * w.out),
           count, w, T(1) / static_cast<T>(w.window));
}

#define INSTANTIATE(T)                                                                                                 \
  template void maxpool<T>(Stream, T *, int32_t *, const T *, const PoolShape &);                                      \
  template void maxpool_grad<T>(Stream, T *, const T *, const int32_t *, const PoolShape &);                           \
  template void avgpool<T>(Stream, T *, const T *, const PoolShape &);                                                 \
  template void avgpool_grad<T>(Stream, T *, const T *, const PoolShape &);
INSTANTIATE(float)
INSTANTIATE(double)
#undef INSTANTIATE

} // namespace echelon::cuda
