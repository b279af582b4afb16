// Reductions of x: (outer, n, inner) over its middle axis to (outer, inner), as runtime/kernels/Reduce.h. Types: float,
// double, int32_t. Sums of floats are added up in double, in an order that depends on sizes alone, so they repeat bit
// for bit. A maximum or minimum that meets a NaN is NaN. Over n = 0: sum 0, maximum -inf, minimum +inf (integers: their
// limits).
#pragma once
#include "runtime/cuda/Device.h"

namespace echelon::cuda {

/// Numbers of scratch with which a sum may be taken in two passes.
constexpr int64_t kReduceScratch = 1 << 16;

/// y: (outer, inner) = sum of x, or with `accumulate` y += it. scratch: kReduceScratch numbers, or null: with it, long
/// sums of few numbers are taken in two passes, so that the whole device adds.
template <typename T>
void reduce_sum(Stream stream, T *y, const T *x, int64_t outer, int64_t n, int64_t inner, bool accumulate = false,
                double *scratch = nullptr);
/// y: (outer, inner) = maximum of x.
template <typename T> void reduce_max(Stream stream, T *y, const T *x, int64_t outer, int64_t n, int64_t inner);
/// y: (outer, inner) = minimum of x.
template <typename T> void reduce_min(Stream stream, T *y, const T *x, int64_t outer, int64_t n, int64_t inner);

/// index: (outer, inner) = the lowest position of the maximum. n >= 1.
template <typename T> void argmax(Stream stream, int32_t *index, const T *x, int64_t outer, int64_t n, int64_t inner);

// A distributed maximum with its place: each rank finds (value, offset + position) in its piece, the caller gathers
// both from `parts` ranks, every rank combines. The lowest place wins ties.

/// value, index: (outer, inner). n >= 1.
template <typename T>
void max_with_index(Stream stream, T *value, int32_t *index, const T *x, int64_t outer, int64_t n, int64_t inner,
                    int32_t offset);
/// index: (count); found: (parts, 2, count), of each part the values, then their places as numbers of T.
template <typename T>
void place_of_largest(Stream stream, int32_t *index, const T *found, int64_t parts, int64_t count);

} // namespace echelon::cuda
