// Convolutions (correlations) over 1 to 4 window dimensions, plain dense formats. Types: float, double.
//   y[b,t,o] = sum over f, u of x[b, f, o * stride + u - padLow] * w[t, f, u],  x being 0 outside
// The twin of cuDNN's, which the emulation and all tests run: the matrix of windows of some samples at a time, in
// scratch, and matrix products.
#pragma once
#include "runtime/cuda/Gemm.h"
#include "runtime/cuda/Scratch.h"

namespace echelon::cuda {

using runtime::ConvKind;
using runtime::ConvShape;

// scratch, aligned to 16 bytes: conv_scratch(shape, kind) elements, or fewer, but enough for a sample.

/// y = conv(x, w).
template <typename T>
void conv(Blas &blas, Stream stream, T *y, const T *x, const T *w, const ConvShape &shape, T *scratch,
          int64_t scratchCount, Compute compute = Compute::full);
/// dx from dy, overwritten.
template <typename T>
void conv_grad_data(Blas &blas, Stream stream, T *dx, const T *dy, const T *w, const ConvShape &shape, T *scratch,
                    int64_t scratchCount, Compute compute = Compute::full);
/// dw from x and dy, overwritten.
template <typename T>
void conv_grad_weights(Blas &blas, Stream stream, T *dw, const T *x, const T *dy, const ConvShape &shape, T *scratch,
                       int64_t scratchCount, Compute compute = Compute::full);

} // namespace echelon::cuda
