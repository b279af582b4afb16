// What both passes of attention know of a tile: kSide^2 threads, R * kSide rows of one matrix by as many of another.
// Thread (tx, ty) has the scores of rows ty * R + r and columns tx + kSide * c. So 16 lanes share a row, sums along
// rows are shuffles within half a warp, and rows that are written and read again as operands need no barrier of the
// block.
#pragma once
#include "runtime/cuda/Attention.h"
#include "runtime/kernels/Elementwise.h"
#include "runtime/launch/Fail.h"

#include <cuda_fp16.h>

#include <limits>
#include <string>

#ifndef __launch_bounds__ // threads of a block, blocks of a multiprocessor: CUDA's compiler takes registers by it
#define __launch_bounds__(...)
#endif

namespace echelon::cuda::attention_tile {

constexpr int kSide = 16;
static_assert(kSide * kSide == kThreads);

/// What one access to shared memory moves.
template <typename W> struct alignas(16) Pack {
  static constexpr int count = 16 / sizeof(W);
  W x[count];
};
template <typename W> DEVICE const Pack<W> &pack_at(const W *at) { return *reinterpret_cast<const Pack<W> *>(at); }

/// Distance of rows of D numbers in shared memory: 16 rows beside each other fall on different banks.
template <typename W, int D> constexpr int kPitch = D + Pack<W>::count;

DEVICE int tx() { return static_cast<int>(threadIdx.x) % kSide; }
DEVICE int ty() { return static_cast<int>(threadIdx.x) / kSide; }

template <typename W> DEVICE W row_sum(W x) {
  for (int offset = kSide / 2; offset > 0; offset /= 2)
    x += __shfl_xor_sync(0xffffffffu, x, offset);
  return x;
}
template <typename W> DEVICE W row_max(W x) {
  for (int offset = kSide / 2; offset > 0; offset /= 2) {
    const W other = __shfl_xor_sync(0xffffffffu, x, offset);
    x = other > x ? other : x;
  }
  return x;
}

/// Which (batch, group, head) slice is meant.
struct Slice {
  int64_t b, g, h;
  DEVICE int64_t in(const HeadStrides &s) const { return b * s.batch + g * s.group + h * s.head; }
  DEVICE int64_t in(const ScoreStrides &s) const { return b * s.batch + g * s.group + h * s.head; }
  DEVICE int64_t number(const AttentionShape &s) const { return (b * s.group + g) * s.head + h; }
  /// Where statistics of its queries begin.
  DEVICE int64_t statistics(const AttentionShape &s) const { return number(s) * (s.apart ? s.apart : s.seq); }
};
DEVICE Slice slice_of(const AttentionShape &s, int64_t number) {
  return {number / s.head / s.group, number / s.head % s.group, number % s.head};
}

/// How many keys, from the first, the queries up to and without `end` may see.
DEVICE int64_t keys_seen(const AttentionShape &s, int64_t end) {
  if (!s.causal)
    return s.past;
  const int64_t most = end + s.offset;
  return most < 0 ? 0 : most < s.past ? most : s.past;
}

template <typename T> DEVICE Wide<T> wide(T x) { return Wide<T>(x); }
/// In one instruction, where fp16's own conversion takes a dozen.
template <> DEVICE float wide(fp16 x) { return __half2float(__half_raw{x.bits}); }

/// Rows first, first + 1, … of a matrix of `rows` rows, `width` long and `step` apart, with zeros where there are none.
template <int Rows, int D, typename W, typename T>
DEVICE void load_rows(W *to, const T *from, int64_t step, int64_t first, int64_t rows, int64_t width) {
  for (int e = static_cast<int>(threadIdx.x); e < Rows * D; e += kThreads) {
    const int r = e / D, c = e % D;
    to[r * kPitch<W, D> + c] = first + r < rows && c < width ? wide(from[(first + r) * step + c]) : W(0);
  }
}

/// sum[r][c] = row ty * R + r of a times row tx + kSide * c of b, both D long.
template <int R, int D, typename W> DEVICE void dots(W (&sum)[R][R], const W *a, const W *b) {
  UNROLL for (int r = 0; r < R; ++r) UNROLL for (int c = 0; c < R; ++c) sum[r][c] = 0;
  for (int d = 0; d < D; d += Pack<W>::count) {
    Pack<W> x[R], y[R];
    UNROLL for (int r = 0; r < R; ++r) {
      x[r] = pack_at(a + (ty() * R + r) * kPitch<W, D> + d);
      y[r] = pack_at(b + (tx() + kSide * r) * kPitch<W, D> + d);
    }
    UNROLL for (int e = 0; e < Pack<W>::count; ++e) UNROLL for (int r = 0; r < R; ++r)
        UNROLL for (int c = 0; c < R; ++c) sum[r][c] += x[r].x[e] * y[c].x[e];
  }
}

/// sum[r][c] += over the rows j of b: p[ty * R + r][j] * b[j][tx + kSide * c]; p: rows of R * kSide.
template <int R, int D, typename W> DEVICE void add_products(W (&sum)[R][D / kSide], const W *p, const W *b) {
  constexpr int rows = R * kSide;
  for (int j = 0; j < rows; j += Pack<W>::count) {
    Pack<W> x[R];
    UNROLL for (int r = 0; r < R; ++r) x[r] = pack_at(p + (ty() * R + r) * kPitch<W, rows> + j);
    UNROLL for (int e = 0; e < Pack<W>::count; ++e) UNROLL for (int c = 0; c < D / kSide; ++c) {
      const W y = b[(j + e) * kPitch<W, D> + tx() + kSide * c];
      UNROLL for (int r = 0; r < R; ++r) sum[r][c] += x[r].x[e] * y;
    }
  }
}

/// What scores are made of beside products: mask and bias of one slice, which may be null.
template <typename T> struct Scores {
  const AttentionShape &shape;
  const uint8_t *mask;
  const T *bias;

  DEVICE Scores(const AttentionShape &shape, Slice at, const uint8_t *mask, const T *bias)
      : shape(shape), mask(mask ? mask + at.in(shape.mask) : nullptr), bias(bias ? bias + at.in(shape.bias) : nullptr) {
  }

  /// -inf where query i does not see key j, or one of them does not exist.
  DEVICE Wide<T> at(int64_t i, int64_t j, Wide<T> product) const {
    using W = Wide<T>;
    constexpr W none = -std::numeric_limits<W>::infinity();
    if (i >= shape.seq || j >= shape.past || (shape.causal && j > i + shape.offset))
      return none;
    if (mask && !mask[i * shape.mask.seq + j * shape.mask.past])
      return none;
    product *= static_cast<W>(shape.scale);
    return bias ? product + wide(bias[i * shape.bias.seq + j * shape.bias.past]) : product;
  }
};

/// What is subtracted before exp: the maximum, but 0 where all is -inf, so that exp gives 0 and not NaN.
template <typename W> DEVICE W shift_of(W maximum) {
  return maximum == -std::numeric_limits<W>::infinity() ? W(0) : maximum;
}

/// Calls body(the head size, as a constant, with which keys and values are computed).
template <typename Body> void withHeadSize(const AttentionShape &shape, Body body) {
  const int64_t size = shape.key > shape.value ? shape.key : shape.value;
  if (size <= 32)
    body(std::integral_constant<int, 32>());
  else if (size <= 64)
    body(std::integral_constant<int, 64>());
  else if (size <= 128)
    body(std::integral_constant<int, 128>());
  else if (size <= 256)
    body(std::integral_constant<int, 256>());
  else
    runtime::fail("attention with heads of " + std::to_string(size) + "; at most 256 is supported");
}

inline int64_t slicesOf(const AttentionShape &s) { return s.batch * s.group * s.head; }
/// Elements from the first to the last of the statistics.
inline int64_t statisticsOf(const AttentionShape &s) {
  return slicesOf(s) <= 0 ? 0 : (slicesOf(s) - 1) * (s.apart ? s.apart : s.seq) + s.seq;
}
/// What a kernel makes, or adds to what is there.
template <typename T> Arg<T> made(const AttentionShape &shape, T *x, int64_t count) {
  return shape.adds ? inout(x, count) : out(x, count);
}
/// Elements from the first to the last of what strides reach.
inline int64_t extentOf(const AttentionShape &shape, const HeadStrides &s, int64_t rows, int64_t width) {
  if (slicesOf(shape) <= 0 || rows <= 0 || width <= 0)
    return 0;
  return (shape.batch - 1) * s.batch + (shape.group - 1) * s.group + (shape.head - 1) * s.head + (rows - 1) * s.row +
         width;
}
inline int64_t extentOf(const AttentionShape &shape, const ScoreStrides &s) {
  if (slicesOf(shape) <= 0 || shape.seq <= 0 || shape.past <= 0)
    return 0;
  return (shape.batch - 1) * s.batch + (shape.group - 1) * s.group + (shape.head - 1) * s.head +
         (shape.seq - 1) * s.seq + (shape.past - 1) * s.past + 1;
}

} // namespace echelon::cuda::attention_tile
