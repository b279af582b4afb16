// Direct convolutions on one thread, straight from and to plain formats, for Conv.cpp.
#pragma once
#include "runtime/kernels/ConvChoice.h"

namespace echelon::runtime::detail {

/// src: (batch, from, in...), weights: (to, from, window...), dst: (batch, to, out...). Reads two of them and writes
/// the third: dst, src or weights by kind. Scratch memory: conv_scratch; what does not fit is allocated.
template <typename T>
void conv_direct(ConvKind kind, T *src, T *weights, T *dst, const ConvShape &shape, T *scratch, int64_t scratchCount);

} // namespace echelon::runtime::detail
