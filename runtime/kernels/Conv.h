// Convolutions (correlations) over 1 to 4 window dimensions, plain dense formats. Types: float, double.
//   y[b,t,o] = sum over f, u of x[b, f, o * stride + u - padLow] * w[t, f, u],  x being 0 outside
// Directly, by Winograd's products, in oneDNN, or as im2col and a matrix product: choose_conv.
#pragma once
#include "runtime/kernels/ConvChoice.h"

namespace echelon::runtime {

// Scratch holds scratchCount elements; what does not fit is allocated.

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
