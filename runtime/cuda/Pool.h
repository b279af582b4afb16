// Max and average pooling over 1 to 4 window dimensions. Types: float, double.
// A maximum does not see padding; a mean divides by the whole window, padding counted as zeros.
#pragma once
#include "runtime/cuda/Device.h"
#include "runtime/kernels/Pool.h"

namespace echelon::cuda {

using runtime::PoolShape;

/// y, and index: (planes, out...) = position of the maximum within its plane, the lowest at ties; index may be null
/// where no derivative follows.
template <typename T> void maxpool(Stream stream, T *y, int32_t *index, const T *x, const PoolShape &shape);
/// dx: (planes, in...) = sum of dy over the windows whose maximum lies there.
template <typename T>
void maxpool_grad(Stream stream, T *dx, const T *dy, const int32_t *index, const PoolShape &shape);
template <typename T> void avgpool(Stream stream, T *y, const T *x, const PoolShape &shape);
template <typename T> void avgpool_grad(Stream stream, T *dx, const T *dy, const PoolShape &shape);

} // namespace echelon::cuda
