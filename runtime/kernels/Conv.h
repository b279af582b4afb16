// Convolutions (correlations) over 1 to 4 window dimensions, plain dense formats. Types: float, double.
//   y[b,t,o] = sum over f, u of x[b, f, o * stride + u - padLow] * w[t, f, u],  x being 0 outside
// In oneDNN or as im2col and a matrix product: conv_by_columns.
#pragma once
#include <cstdint>

namespace echelon::runtime {

constexpr int kMaxWindowRank = 4;

/// One window dimension: size of x, of the window; step; zeros before and after.
struct WindowDim {
  int64_t in, window, stride, padLow, padHigh;
  constexpr int64_t out() const { return (in + padLow + padHigh - window) / stride + 1; }
};

/// x: (batch, from, in...), w: (to, from, window...), y: (batch, to, out...).
struct ConvShape {
  int64_t batch, from, to;
  int rank;
  WindowDim dims[kMaxWindowRank];
};

enum class ConvKind : uint8_t { forward, gradData, gradWeights };

/// Whether it is done as im2col and a matrix product a sample. What oneDNN lacks; and x of one or two channels, which
/// it pads to 8 for the weights' derivative. GFLOP/s (`bench_kernels conv`): 1 -> 16 channels 35 by columns, 21 to 34
/// in oneDNN, its dw 20 and 7; 2 -> 16 channels 39 and 49, its dw 17 and 12; 3 -> 16 channels 29 and 53, its dw 20
/// and 50.
constexpr bool conv_by_columns(ConvKind kind, const ConvShape &shape, int elementBytes) {
  if (elementBytes != 4 || shape.rank > 3)
    return true;
  return kind != ConvKind::gradData && shape.from <= (kind == ConvKind::gradWeights ? 2 : 1);
}

/// How many samples oneDNN gets at a time: a divisor of the batch, such that their blocked x and y stay in the cache
/// between being brought into their formats, used, and brought back. The weights' derivative takes all at once, since
/// it would be summed anew for each part.
constexpr int64_t conv_samples(ConvKind kind, const ConvShape &shape) {
  int64_t in = 1, out = 1;
  for (int d = 0; d < shape.rank; ++d)
    in *= shape.dims[d].in, out *= shape.dims[d].out();
  constexpr int64_t kCached = 512 << 10;
  int64_t samples = kCached / (4 * (shape.from * in + shape.to * out) + 1);
  if (kind == ConvKind::gradWeights || samples >= shape.batch)
    return shape.batch;
  samples = samples < 1 ? 1 : samples;
  while (shape.batch % samples != 0)
    --samples;
  return samples;
}

/// How many elements of scratch memory it wants: the windows of one sample, or oneDNN's blocked formats of x, w and y
/// (at most 16 channels a block; x of up to 3 channels is taken as it is).
constexpr int64_t conv_scratch(ConvKind kind, const ConvShape &shape, int elementBytes) {
  int64_t in = 1, window = 1, out = 1;
  for (int d = 0; d < shape.rank; ++d)
    in *= shape.dims[d].in, window *= shape.dims[d].window, out *= shape.dims[d].out();
  if (conv_by_columns(kind, shape, elementBytes))
    return shape.from * window * out;
  int64_t from = (shape.from + 15) / 16 * 16, to = (shape.to + 15) / 16 * 16, samples = conv_samples(kind, shape);
  bool asItIs = shape.from <= 3 && kind != ConvKind::gradData;
  return (asItIs ? 0 : samples * from * in) + from * to * window + samples * to * out;
}

// Scratch holds scratchCount elements; what does not fit is allocated by the calling thread and kept.

/// y = conv(x, w).
template <typename T>
void conv(T *y, const T *x, const T *w, const ConvShape &shape, T *scratch = nullptr, int64_t scratchCount = 0);
/// dx from dy, overwritten.
template <typename T>
void conv_grad_data(T *dx, const T *dy, const T *w, const ConvShape &shape, T *scratch = nullptr,
                    int64_t scratchCount = 0);
/// dw from x and dy, overwritten.
template <typename T>
void conv_grad_weights(T *dw, const T *x, const T *dy, const ConvShape &shape, T *scratch = nullptr,
                       int64_t scratchCount = 0);

namespace reference {
template <typename T> void conv(T *y, const T *x, const T *w, const ConvShape &shape);
template <typename T> void conv_grad_data(T *dx, const T *dy, const T *w, const ConvShape &shape);
template <typename T> void conv_grad_weights(T *dw, const T *x, const T *dy, const ConvShape &shape);
} // namespace reference
} // namespace echelon::runtime
