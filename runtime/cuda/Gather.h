// Gathers by int32_t indices and their derivatives. Types: float, double (gather, gather_rows: int32_t, bf16 and fp16,
// too). Indices are logical positions of an axis of which this rank holds [lo, hi): outside, a gather gives 0 (pending
// over the ranks) and a scatter does nothing. Scatters add in the order of the indices, without atomics, so they repeat
// bit for bit and are the CPU's bits.
#pragma once
#include "runtime/cuda/Device.h"
#include "runtime/cuda/Scratch.h"
#include "runtime/kernels/Gather.h"

#include <initializer_list>

namespace echelon::cuda {

using runtime::GatherDim;
using runtime::GatherIndex;

// A scatter with scratch first sorts where its elements go: a radix sort, some 20 bytes an element. Without scratch it
// looks through all indices for each row of the table: for small ones.

/// Bytes of scratch for scatter_add; of rows: scatter_scratch of Scratch.h.
int64_t scatter_scratch(std::initializer_list<GatherDim> dims, std::initializer_list<GatherIndex> indices);

/// out: (count, width) = table[index - lo]; table: (hi - lo, width); index: (count).
template <typename T>
void gather_rows(Stream stream, T *out, const T *table, const int32_t *index, int64_t count, int64_t width, int32_t lo,
                 int32_t hi);
/// table: (hi - lo, width), [index - lo] += d: (count, width). The caller sets the table to 0 first. scratch:
/// scatter_scratch(count) bytes, aligned to 8, or null.
template <typename T>
void scatter_add_rows(Stream stream, T *table, const T *d, const int32_t *index, int64_t count, int64_t width,
                      int32_t lo, int32_t hi, void *scratch = nullptr);

/// out, dense over dims (at most 8): out[p] = source[p . source strides + sum over the axes of (index[p . strides] -
/// lo) * axis], 0 where an index is outside. Several axes (at most 4) gather jointly.
template <typename T>
void gather(Stream stream, T *out, const T *source, std::initializer_list<GatherDim> dims,
            std::initializer_list<GatherIndex> indices);
/// The derivative: source[...] += d[p], d dense over dims. The caller sets the source to 0 first. scratch:
/// scatter_scratch(dims, indices) bytes, aligned to 8, or null.
template <typename T>
void scatter_add(Stream stream, T *source, const T *d, std::initializer_list<GatherDim> dims,
                 std::initializer_list<GatherIndex> indices, void *scratch = nullptr);

} // namespace echelon::cuda
