// Attention forward: a block for a tile of queries goes through the keys they see, tile by tile. Running maximum m and
// sum l per query; what was accumulated is scaled by exp(m_old - m_new) when a later tile moves the maximum. Source:
// Dao et al. 2022, FlashAttention, algorithm 1. Keys and values of a tile take turns in one place of shared memory.
#include "runtime/cuda/AttentionTile.h"

namespace echelon::cuda {

namespace {

using namespace attention_tile;

/// Scores of a thread along a row, and along a column: shared memory and registers bound it.
template <typename W, int D> constexpr int kPart = sizeof(W) == 8 ? (D <= 128 ? 2 : 1) : (D <= 128 ? 4 : 2);

template <typename T, int D>
__global__ void __launch_bounds__(kThreads, 2)
    attention_tiles(T *out, Wide<T> *maximum, Wide<T> *sum, const T *q, const T *k, const T *v, const uint8_t *mask,
                    const T *bias, AttentionShape shape, AttentionStrides strides) {
  using W = Wide<T>;
  constexpr int R = kPart<W, D>, rows = R * kSide;
  W *queries = shared_memory<W>(), *keys = queries + rows * kPitch<W, D>, *p = keys + rows * kPitch<W, D>;
  const int64_t tiles = (shape.seq + rows - 1) / rows;
  const Slice slice = slice_of(shape, blockIdx.x / tiles);
  const int64_t i0 = (tiles - 1 - blockIdx.x % tiles) * rows; // those that see the most keys begin first
  const Scores<T> scores(shape, slice, mask, bias);
  q += slice.in(strides.q), k += slice.in(strides.k), v += slice.in(strides.v);

  W m[R], l[R], total[R][D / kSide];
  maximum += slice.statistics(shape), sum += slice.statistics(shape), out += slice.in(strides.out);
  UNROLL for (int r = 0; r < R; ++r) {
    const int64_t i = i0 + ty() * R + r;
    const bool adds = shape.adds && i < shape.seq; // to what other keys have given
    m[r] = adds ? maximum[i] : -std::numeric_limits<W>::infinity();
    l[r] = adds ? sum[i] : W(0);
    UNROLL for (int c = 0; c < D / kSide; ++c) {
      const int d = tx() + kSide * c;
      total[r][c] = adds && d < shape.value ? wide(out[i * strides.out.row + d]) * l[r] : W(0);
    }
  }
  load_rows<rows, D>(queries, q, strides.q.row, i0, shape.seq, shape.key);
  const int64_t last = keys_seen(shape, i0 + rows < shape.seq ? i0 + rows : shape.seq);
  for (int64_t j0 = 0; j0 < last; j0 += rows) {
    __syncthreads(); // the values before may still be read
    load_rows<rows, D>(keys, k, strides.k.row, j0, shape.past, shape.key);
    __syncthreads();
    W s[R][R];
    dots<R, D>(s, queries, keys);
    UNROLL for (int r = 0; r < R; ++r) {
      W most = m[r], added = 0;
      UNROLL for (int c = 0; c < R; ++c) {
        s[r][c] = scores.at(i0 + ty() * R + r, j0 + tx() + kSide * c, s[r][c]);
        most = s[r][c] > most ? s[r][c] : most;
      }
      most = row_max(most);
      const W shift = shift_of(most), kept = runtime::math::exp(m[r] - shift);
      UNROLL for (int c = 0; c < R; ++c) {
        const W e = runtime::math::exp(s[r][c] - shift);
        p[(ty() * R + r) * kPitch<W, rows> + tx() + kSide * c] = e;
        added += e;
      }
      l[r] = l[r] * kept + row_sum(added);
      m[r] = most;
      UNROLL for (int c = 0; c < D / kSide; ++c) total[r][c] *= kept;
    }
    __syncthreads(); // all have read the keys
    load_rows<rows, D>(keys, v, strides.v.row, j0, shape.past, shape.value);
    __syncthreads();
    add_products<R, D>(total, p, keys);
  }
  UNROLL for (int r = 0; r < R; ++r) {
    const int64_t i = i0 + ty() * R + r;
    if (i < shape.seq) {
      const W factor = l[r] == 0 ? W(0) : 1 / l[r];
      UNROLL for (int c = 0; c < D / kSide; ++c) if (const int d = tx() + kSide * c; d < shape.value)
          out[i * strides.out.row + d] = T(total[r][c] * factor);
      if (tx() == 0) {
        maximum[i] = m[r];
        sum[i] = l[r];
      }
    }
  }
}

} // namespace

template <typename T>
void attention(Stream stream, T *out, Wide<T> *maximum, Wide<T> *sum, const T *q, const T *k, const T *v,
               const AttentionShape &shape, const AttentionStrides &strides, const uint8_t *mask, const T *bias) {
  using W = Wide<T>;
  const int64_t slices = slicesOf(shape), queries = slices * shape.seq;
  if (queries <= 0)
    return;
  withHeadSize(shape, [&](auto size) {
    constexpr int D = decltype(size)::value, rows = kPart<W, D> * kSide;
    constexpr size_t bytes = sizeof(W) * rows * (2 * kPitch<W, D> + kPitch<W, rows>);
    Shape blocks = cover_blocks((shape.seq + rows - 1) / rows * slices);
    blocks.shared = bytes;
    launch("attention", attention_tiles<T, D>, blocks, stream,
           made(shape, out, extentOf(shape, strides.out, shape.seq, shape.value)),
           made(shape, maximum, statisticsOf(shape)), made(shape, sum, statisticsOf(shape)),
           in(q, extentOf(shape, strides.q, shape.seq, shape.key)),
           in(k, extentOf(shape, strides.k, shape.past, shape.key)),
           in(v, extentOf(shape, strides.v, shape.past, shape.value)), in(mask, mask ? extentOf(shape, shape.mask) : 0),
           in(bias, bias ? extentOf(shape, shape.bias) : 0), shape, strides);
  });
}

#define INSTANTIATE(T)                                                                                                 \
  template void attention<T>(Stream, T *, Wide<T> *, Wide<T> *, const T *, const T *, const T *,                       \
                             const AttentionShape &, const AttentionStrides &, const uint8_t *, const T *);
INSTANTIATE(float)
INSTANTIATE(double)
INSTANTIATE(bf16)
INSTANTIATE(fp16)
#undef INSTANTIATE

} // namespace echelon::cuda
