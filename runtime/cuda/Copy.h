// Copies, transposes and sums of strided n-d boxes; fills; as runtime/kernels/Copy.h. Types: float, double, int32_t,
// uint8_t (add: not uint8_t); copy_strided and fill: bf16 and fp16, too. Strides and sizes are in elements, slowest
// dimension first; at most 8 dimensions. Source and target do not overlap.
#pragma once
#include "runtime/cuda/Device.h"

#include <initializer_list>

namespace echelon::cuda {

/// dst[i . dstStrides] = src[i . srcStrides] for every i in the box `sizes`. A source stride of 0 repeats.
template <typename T>
void copy_strided(Stream stream, T *dst, const int64_t *dstStrides, const T *src, const int64_t *srcStrides,
                  const int64_t *sizes, int rank);

/// dst[i . dstStrides] += src[i . srcStrides]. A target stride of 0 sums over that dimension, in an order that depends
/// on sizes alone.
template <typename T>
void add_strided(Stream stream, T *dst, const int64_t *dstStrides, const T *src, const int64_t *srcStrides,
                 const int64_t *sizes, int rank);

/// dst[i . strides] = value.
template <typename T>
void fill_strided(Stream stream, T *dst, const int64_t *strides, const int64_t *sizes, int rank, T value);

/// dst[0 .. n) = value.
template <typename T> void fill(Stream stream, T *dst, int64_t n, T value);

using Extents = std::initializer_list<int64_t>;

template <typename T>
inline void copy_strided(Stream stream, T *dst, Extents dstStrides, const T *src, Extents srcStrides, Extents sizes) {
  copy_strided(stream, dst, dstStrides.begin(), src, srcStrides.begin(), sizes.begin(), static_cast<int>(sizes.size()));
}
template <typename T>
inline void add_strided(Stream stream, T *dst, Extents dstStrides, const T *src, Extents srcStrides, Extents sizes) {
  add_strided(stream, dst, dstStrides.begin(), src, srcStrides.begin(), sizes.begin(), static_cast<int>(sizes.size()));
}

} // namespace echelon::cuda
