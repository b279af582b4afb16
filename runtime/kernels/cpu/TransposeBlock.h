// Eight rows of eight in registers, for kernels that transpose.
#pragma once
#include "runtime/kernels/cpu/Vectors.h"

namespace echelon::runtime::detail {

/// to[i] = column i of the 8 x 8 at src, of values as large as a float. Rows r and r + 4 mix at ever finer grain, in
/// three rounds.
template <typename T> inline void columns_of_block(Vector<T> *to, const T *src, int64_t srcRow) {
  static_assert(sizeof(T) == 4);
  Vector<T> r[8], s[8];
  for (int i = 0; i < 8; ++i)
    r[i] = Whole().load(src + i * srcRow);
  for (int i = 0; i < 4; ++i) {
    s[2 * i] = __builtin_shufflevector(r[2 * i], r[2 * i + 1], 0, 8, 1, 9, 4, 12, 5, 13);
    s[2 * i + 1] = __builtin_shufflevector(r[2 * i], r[2 * i + 1], 2, 10, 3, 11, 6, 14, 7, 15);
  }
  for (int i = 0; i < 2; ++i)
    for (int j = 0; j < 2; ++j) {
      r[4 * i + 2 * j] = __builtin_shufflevector(s[4 * i + j], s[4 * i + j + 2], 0, 1, 8, 9, 4, 5, 12, 13);
      r[4 * i + 2 * j + 1] = __builtin_shufflevector(s[4 * i + j], s[4 * i + j + 2], 2, 3, 10, 11, 6, 7, 14, 15);
    }
  for (int i = 0; i < 4; ++i) {
    to[i] = __builtin_shufflevector(r[i], r[i + 4], 0, 1, 2, 3, 8, 9, 10, 11);
    to[i + 4] = __builtin_shufflevector(r[i], r[i + 4], 4, 5, 6, 7, 12, 13, 14, 15);
  }
}

/// dst[i][j] = src[j][i], i, j < 8, or with `add` += it.
template <bool add, typename T> inline void transpose_block(T *dst, int64_t dstRow, const T *src, int64_t srcRow) {
  if constexpr (sizeof(T) == 4) {
    Vector<T> s[8];
    columns_of_block(s, src, srcRow);
    for (int i = 0; i < 8; ++i)
      Whole().store(dst + i * dstRow, add ? Whole().load(dst + i * dstRow) + s[i] : s[i]);
  } else {
    for (int i = 0; i < 8; ++i)
      for (int j = 0; j < 8; ++j)
        dst[i * dstRow + j] = add ? dst[i * dstRow + j] + src[j * srcRow + i] : src[j * srcRow + i];
  }
}

} // namespace echelon::runtime::detail
