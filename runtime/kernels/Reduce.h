// Reductions of x: (outer, n, inner) over its middle axis to (outer, inner). Types: float, double, int32_t.
// Sums are associated in a fixed order and by pairs, so they repeat bit for bit and their error grows with log n.
// A maximum or minimum that meets a NaN is NaN. Over n = 0: sum 0, maximum -inf, minimum +inf (integers: their limits).
#pragma once
#include <cstdint>

namespace echelon::runtime {

/// y: (outer, inner) = sum of x, or with `accumulate` y += it.
template <typename T>
void reduce_sum(T *y, const T *x, int64_t outer, int64_t n, int64_t inner, bool accumulate = false);
/// y: (outer, inner) = maximum of x.
template <typename T> void reduce_max(T *y, const T *x, int64_t outer, int64_t n, int64_t inner);
/// y: (outer, inner) = minimum of x.
template <typename T> void reduce_min(T *y, const T *x, int64_t outer, int64_t n, int64_t inner);

/// index: (outer, inner) = the lowest position of the maximum. n >= 1.
template <typename T> void argmax(int32_t *index, const T *x, int64_t outer, int64_t n, int64_t inner);

// A distributed maximum with its place: each rank finds (value, offset + position) in its piece, the caller gathers
// both from `parts` ranks, every rank combines. The lowest place wins ties.

/// value, index: (outer, inner).
template <typename T>
void max_with_index(T *value, int32_t *index, const T *x, int64_t outer, int64_t n, int64_t inner, int32_t offset);
/// index: (count); found: (parts, 2, count), of each part the values, then their places as numbers of T.
template <typename T> void place_of_largest(int32_t *index, const T *found, int64_t parts, int64_t count);

namespace reference {
template <typename T> void reduce_sum(T *y, const T *x, int64_t outer, int64_t n, int64_t inner);
template <typename T>
void max_with_index(T *value, int32_t *index, const T *x, int64_t outer, int64_t n, int64_t inner, int32_t offset);
template <typename T>
void min_with_index(T *value, int32_t *index, const T *x, int64_t outer, int64_t n, int64_t inner, int32_t offset);
} // namespace reference
} // namespace echelon::runtime
