// Convolutions in float through oneDNN, for Conv.cpp.
#pragma once
#include "runtime/kernels/Conv.h"

namespace echelon::runtime::detail {

/// src: (batch, from, in...), weights: (to, from, window...), dst: (batch, to, out...), plain formats. Reads two of
/// them and writes the third: dst, src or weights by kind. 1 to 3 window dimensions.
void conv_dnnl(ConvKind kind, float *src, float *weights, float *dst, const ConvShape &shape, float *scratch,
               int64_t scratchCount);

} // namespace echelon::runtime::detail
