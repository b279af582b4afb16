// Products of small matrices as attention has many: one operand is packed once into strips, the other is read where it
// lies, sums stay in registers in tiles of 6 rows by two vectors. Any part of the sum may be left out: k runs where the
// caller says, so that what a mask hides costs nothing.
#pragma once
#include "runtime/kernels/cpu/TransposeBlock.h"
#include <algorithm>

namespace echelon::runtime::detail {

constexpr int64_t kTileRows = 6; // 6 x 2 vectors of sums, 2 of the strip and 1 of the other: 15 of 16 registers
template <typename T> constexpr int64_t kStrip = 2 * Lanes<T>::width;

inline int64_t round_up(int64_t n, int64_t unit) { return (n + unit - 1) / unit * unit; }

/// Matrices (depth, n) in strips: element (l, j) is at[j / kStrip * depth * kStrip + l * kStrip + j % kStrip]; the last
/// strip is filled up with zeros.
template <typename T> inline int64_t strips_size(int64_t depth, int64_t n) { return depth * round_up(n, kStrip<T>); }

/// x: (depth, n), rows `row` apart.
template <typename T> void pack_strips(T *strips, const T *x, int64_t row, int64_t depth, int64_t n) {
  constexpr int64_t w = Lanes<T>::width;
  for (int64_t j = 0; j < n; j += kStrip<T>, strips += depth * kStrip<T>)
    if (n - j >= kStrip<T>) {
      for (int64_t l = 0; l < depth; ++l) {
        Whole().store(strips + l * kStrip<T>, Whole().load(x + l * row + j));
        Whole().store(strips + l * kStrip<T> + w, Whole().load(x + l * row + j + w));
      }
    } else {
      for (int64_t l = 0; l < depth; ++l)
        for (int64_t c = 0; c < kStrip<T>; ++c)
          strips[l * kStrip<T> + c] = j + c < n ? x[l * row + j + c] : T(0);
    }
}

/// x: (n, depth), rows `row` apart: its transpose is packed.
template <typename T> void pack_strips_transposed(T *strips, const T *x, int64_t row, int64_t depth, int64_t n) {
  for (int64_t j = 0; j < n; j += kStrip<T>, strips += depth * kStrip<T>) {
    int64_t l = 0;
    const T *from = x + j * row;
    for (; l + 8 <= depth; l += 8)
      for (int64_t c = 0; c < kStrip<T>; c += 8) {
        T *to = strips + l * kStrip<T> + c;
        if (n - j - c >= 8) {
          transpose_block<false>(to, kStrip<T>, from + c * row + l, row);
          continue;
        }
        T some[8 * 8] = {};
        for (int64_t r = 0; r < n - j - c; ++r)
          std::copy_n(from + (c + r) * row + l, 8, some + r * 8);
        transpose_block<false>(to, kStrip<T>, some, 8);
      }
    for (; l < depth; ++l)
      for (int64_t c = 0; c < kStrip<T>; ++c)
        strips[l * kStrip<T> + c] = j + c < n ? from[c * row + l] : T(0);
  }
}

/// Element (i, l) lies at[i * row + l * col].
template <typename T> struct Operand {
  const T *at;
  int64_t row, col;
};

/// c: (rows, vectors * width) = alpha * a * strip, or += it.
template <int rows, int vectors, typename T>
__attribute__((noinline)) void tile(T *c, int64_t ldc, Operand<T> a, const T *strip, int64_t k, T alpha, bool add) {
  constexpr int64_t w = Lanes<T>::width;
  Vector<T> sums[rows][vectors];
#pragma GCC unroll 6
  for (int r = 0; r < rows; ++r)
#pragma GCC unroll 2
    for (int v = 0; v < vectors; ++v)
      sums[r][v] = Vector<T>{};
  const T *at = a.at;
#pragma GCC unroll 4
  for (int64_t l = 0; l < k; ++l) {
    Vector<T> b[vectors];
    for (int v = 0; v < vectors; ++v)
      b[v] = Whole().load(strip + v * w);
#pragma GCC unroll 6
    for (int r = 0; r < rows; ++r) {
      const T x = at[r * a.row];
      for (int v = 0; v < vectors; ++v)
        sums[r][v] += x * b[v];
    }
    at += a.col;
    strip += kStrip<T>;
  }
#pragma GCC unroll 6
  for (int r = 0; r < rows; ++r)
#pragma GCC unroll 2
    for (int v = 0; v < vectors; ++v) {
      T *to = c + r * ldc + v * w;
      Vector<T> sum = alpha * sums[r][v];
      Whole().store(to, add ? Whole().load(to) + sum : sum);
    }
}

template <int vectors, typename T>
inline void tile_of(int64_t rows, T *c, int64_t ldc, Operand<T> a, const T *strip, int64_t k, T alpha, bool add) {
  using Tile = void (*)(T *, int64_t, Operand<T>, const T *, int64_t, T, bool);
  static constexpr Tile tiles[] = {nullptr,
                                   tile<1, vectors, T>,
                                   tile<2, vectors, T>,
                                   tile<3, vectors, T>,
                                   tile<4, vectors, T>,
                                   tile<5, vectors, T>,
                                   tile<6, vectors, T>};
  tiles[rows](c, ldc, a, strip, k, alpha, add);
}

/// c: (rows, n) = alpha * a * b, or += it; rows <= kTileRows, b: (k, n) the rows `from` .. `from + k` of strips that
/// have `depth` of them.
template <typename T>
void multiply_panel(T *c, int64_t ldc, int64_t rows, int64_t n, Operand<T> a, const T *strips, int64_t depth,
                    int64_t from, int64_t k, T alpha, bool add) {
  constexpr int64_t w = Lanes<T>::width;
  strips += from * kStrip<T>;
  for (int64_t j = 0; j < n; j += kStrip<T>, strips += depth * kStrip<T>) {
    const int64_t width = std::min(kStrip<T>, n - j);
    if (width == kStrip<T>) {
      tile_of<2>(rows, c + j, ldc, a, strips, k, alpha, add);
    } else if (width == w) {
      tile_of<1>(rows, c + j, ldc, a, strips, k, alpha, add);
    } else {
      T edge[kTileRows * kStrip<T>];
      tile_of<2>(rows, edge, kStrip<T>, a, strips, k, alpha, false);
      for (int64_t r = 0; r < rows; ++r)
        for (int64_t i = 0; i < width; ++i)
          c[r * ldc + j + i] = edge[r * kStrip<T> + i] + (add ? c[r * ldc + j + i] : T(0));
    }
  }
}

} // namespace echelon::runtime::detail
