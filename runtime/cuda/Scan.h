// Running sums and the k largest, over the middle axis of x: (outer, n, inner). Types: float, double, int32_t.
#pragma once
#include "runtime/cuda/Device.h"

namespace echelon::cuda {

/// y[j] = x[0] + ... + x[j]; reverse: x[j] + ... + x[n - 1], which is also the derivative. May work in place.
template <typename T>
void cumsum(Stream stream, T *y, const T *x, int64_t outer, int64_t n, int64_t inner, bool reverse = false);

/// index: (outer, k, inner) = positions of the k largest, largest first, the lowest position first at ties; a NaN
/// counts as largest. 1 <= k <= n.
template <typename T>
void top_k(Stream stream, int32_t *index, const T *x, int64_t outer, int64_t n, int64_t inner, int64_t k);

} // namespace echelon::cuda
