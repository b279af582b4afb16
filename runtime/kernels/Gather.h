// Gathers by int32_t indices and their derivatives. Types: float, double (gather, gather_rows: int32_t too).
// Indices are logical positions of an axis of which this rank holds [lo, hi): outside, a gather gives 0 (pending over
// the ranks) and a scatter does nothing. Scatters add in the order of the indices, so they repeat bit for bit.
#pragma once
#include <cstdint>
#include <initializer_list>

namespace echelon::runtime {

/// out: (count, width) = table[index - lo]; table: (hi - lo, width); index: (count).
template <typename T>
void gather_rows(T *out, const T *table, const int32_t *index, int64_t count, int64_t width, int32_t lo, int32_t hi);
/// table: (hi - lo, width), [index - lo] += d: (count, width). The caller sets the table to 0 first.
template <typename T>
void scatter_add_rows(T *table, const T *d, const int32_t *index, int64_t count, int64_t width, int32_t lo, int32_t hi);

/// One dimension of a gather's result: its size, and the source's stride along it (0 where the source lacks it).
struct GatherDim {
  int64_t size, source;
};
/// One gathered axis: its indices, their strides over the result's dimensions (0 where they lack it), the source's
/// stride along the gathered axis, and what of that axis is here.
struct GatherIndex {
  const int32_t *index;
  int64_t strides[8];
  int64_t axis;
  int32_t lo, hi;
};

/// out, dense over dims (at most 8): out[p] = source[p . source strides + sum over the axes of (index[p . strides] -
/// lo)
/// * axis], 0 where an index is outside. Several axes gather jointly.
template <typename T>
void gather(T *out, const T *source, std::initializer_list<GatherDim> dims, std::initializer_list<GatherIndex> indices);
/// The derivative: source[...] += d[p], d dense over dims. The caller sets the source to 0 first.
template <typename T>
void scatter_add(T *source, const T *d, std::initializer_list<GatherDim> dims,
                 std::initializer_list<GatherIndex> indices);

} // namespace echelon::runtime
