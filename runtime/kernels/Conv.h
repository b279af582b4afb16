// Convolutions (correlations) over 1 to 4 window dimensions, plain dense formats. Types: float, double.
//   y[b,t,o] = sum over f, u of x[b, f, o * stride + u - padLow] * w[t, f, u],  x being 0 outside
// float with up to 3 window dimensions runs in oneDNN, all else as im2col and a matrix product.
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

/// y = conv(x, w).
template <typename T> void conv(T *y, const T *x, const T *w, const ConvShape &shape);
/// dx from dy, overwritten.
template <typename T> void conv_grad_data(T *dx, const T *dy, const T *w, const ConvShape &shape);
/// dw from x and dy, overwritten.
template <typename T> void conv_grad_weights(T *dw, const T *x, const T *dy, const ConvShape &shape);

namespace reference {
template <typename T> void conv(T *y, const T *x, const T *w, const ConvShape &shape);
template <typename T> void conv_grad_data(T *dx, const T *dy, const T *w, const ConvShape &shape);
template <typename T> void conv_grad_weights(T *dw, const T *x, const T *dy, const ConvShape &shape);
} // namespace reference
} // namespace echelon::runtime
