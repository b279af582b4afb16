// Convolutions with 3 x 3 windows and steps of 1 by fewer products, on one thread.
#pragma once
#include "runtime/kernels/ConvChoice.h"

namespace echelon::runtime::detail {

/// As conv_direct. winogradFits(shape).
template <typename T>
void conv_winograd(ConvKind kind, T *src, T *weights, T *dst, const ConvShape &shape, T *scratch, int64_t scratchCount);

} // namespace echelon::runtime::detail
