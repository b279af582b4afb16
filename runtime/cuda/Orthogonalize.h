// Gram-Schmidt, as PowerSGD needs it: of few vectors. Types: float, double.
#pragma once
#include "runtime/cuda/Device.h"

namespace echelon::cuda {

/// y, x: (outer, n, inner), a vector of n numbers at each place of inner. In their order, each loses its parts along
/// those before it, and is divided by its norm. One of which no more is left than runtime::kLeastLeft of the longest
/// that was given, which may be rounding alone, becomes 0. Products are added up in double. May work in place.
template <typename T> void orthogonalize(Stream stream, T *y, const T *x, int64_t outer, int64_t n, int64_t inner);

} // namespace echelon::cuda
