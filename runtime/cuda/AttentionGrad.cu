// The derivative of attention. Probabilities again from the kept maximum and sum, p = exp(s - maximum) / sum, then with
// dot = sum(dout * out) per query:
//   dv += p^T dout,  ds = p * (dout v^T - dot),  dq += scale ds k,  dk += scale ds^T q,  dbias += ds.
// A kernel makes dq, a block for a tile of queries; one makes dk and dv, a block for a tile of keys; one dbias, a block
// for a tile of it, which sums over all that share it. No two blocks add to one place: where slices share a target of
// dq, dk or dv, each leaves its share in scratch, and a last kernel sums these in order.
#include "runtime/cuda/AttentionTile.h"

namespace echelon::cuda {

namespace {

using namespace attention_tile;

/// Scores of a thread along a row, and along a column: four matrices of a tile lie in shared memory.
template <typename W, int D> constexpr int kPart = sizeof(W) == 8 ? (D <= 128 ? 2 : 1) : (D <= 64 ? 4 : 2);

/// What the three kernels read.
template <typename T> struct Operands {
  const T *dout, *q, *k, *v;
  const Wide<T> *maximum, *sum, *dots;
  const uint8_t *mask;
  const T *bias;
};

/// p and ds of query i and key j, from products of q and k, and of dout and v.
template <typename T> struct Weights {
  Scores<T> scores;
  const Wide<T> *maximum, *sum, *dots; // of this slice

  DEVICE Weights(const AttentionShape &shape, Slice at, const Operands<T> &of)
      : scores(shape, at, of.mask, of.bias), maximum(of.maximum + at.statistics(shape)),
        sum(of.sum + at.statistics(shape)), dots(of.dots + at.number(shape) * shape.seq) {}

  DEVICE void make(int64_t i, int64_t j, Wide<T> &product, Wide<T> &cotangent) const {
    using W = Wide<T>;
    const W score = scores.at(i, j, product);
    W p = 0, ds = 0;
    if (score != -std::numeric_limits<W>::infinity() && sum[i] != 0) {
      p = runtime::math::exp(score - shift_of(maximum[i])) / sum[i];
      ds = p * (cotangent - dots[i]);
    }
    product = p;
    cotangent = ds;
  }
};

/// dots: (batch, group, head, seq) = sum(dout * out). A warp a query.
template <typename T>
__global__ void attention_dots(Wide<T> *dots, const T *dout, const T *out, AttentionShape shape, HeadStrides ofDout,
                               HeadStrides ofOut, int64_t queries) {
  using W = Wide<T>;
  const bool exists = warp_row() < queries;
  const Slice at = slice_of(shape, warp_row() / shape.seq);
  const int64_t i = warp_row() % shape.seq;
  W sum = 0;
  if (exists)
    for (int64_t c = lane(); c < shape.value; c += 32)
      sum += W(dout[at.in(ofDout) + i * ofDout.row + c]) * W(out[at.in(ofOut) + i * ofOut.row + c]);
  sum = warp_sum(sum);
  if (exists && lane() == 0)
    dots[warp_row()] = sum;
}

/// A target's element: x, or what is there and x.
template <typename T> DEVICE void leave(T &place, Wide<T> x, const AttentionShape &shape) {
  place = T(shape.adds ? wide(place) + x : x);
}

/// Rows first + ty * R + r of a target, times `factor`.
template <int R, int D, typename T>
DEVICE void store_rows(T *place, Wide<T> *share, const Wide<T> (&x)[R][D / kSide], Wide<T> factor, Slice at,
                       const AttentionShape &shape, const HeadStrides &strides, int64_t first, int64_t rows,
                       int64_t width) {
  UNROLL for (int r = 0; r < R; ++r) {
    const int64_t i = first + ty() * R + r;
    UNROLL for (int c = 0; c < D / kSide; ++c) if (const int d = tx() + kSide * c; i < rows && d < width) {
      if (share)
        share[(at.number(shape) * rows + i) * width + d] = x[r][c] * factor;
      else
        leave(place[at.in(strides) + i * strides.row + d], x[r][c] * factor, shape);
    }
  }
}

template <typename T, int D>
__global__ void __launch_bounds__(kThreads, 2)
    attention_grad_queries(T *dq, Wide<T> *share, const T *dout, const T *q, const T *k, const T *v,
                           const Wide<T> *maximum, const Wide<T> *sum, const Wide<T> *dotsOf, const uint8_t *mask,
                           const T *bias, AttentionShape shape, AttentionStrides strides, AttentionStrides grads) {
  using W = Wide<T>;
  constexpr int R = kPart<W, D>, rows = R * kSide, matrix = rows * kPitch<W, D>;
  W *queries = shared_memory<W>(), *douts = queries + matrix, *keys = douts + matrix, *values = keys + matrix,
    *ds = values + matrix;
  const int64_t tiles = (shape.seq + rows - 1) / rows;
  const Slice at = slice_of(shape, blockIdx.x / tiles);
  const int64_t i0 = (tiles - 1 - blockIdx.x % tiles) * rows;
  const Weights<T> weights(shape, at, {dout, q, k, v, maximum, sum, dotsOf, mask, bias});
  W total[R][D / kSide] = {};
  load_rows<rows, D>(queries, q + at.in(strides.q), strides.q.row, i0, shape.seq, shape.key);
  load_rows<rows, D>(douts, dout + at.in(grads.out), grads.out.row, i0, shape.seq, shape.value);
  const int64_t last = keys_seen(shape, i0 + rows < shape.seq ? i0 + rows : shape.seq);
  for (int64_t j0 = 0; j0 < last; j0 += rows) {
    __syncthreads(); // the keys before may still be read
    load_rows<rows, D>(keys, k + at.in(strides.k), strides.k.row, j0, shape.past, shape.key);
    load_rows<rows, D>(values, v + at.in(strides.v), strides.v.row, j0, shape.past, shape.value);
    __syncthreads();
    W s[R][R], d[R][R];
    dots<R, D>(s, queries, keys);
    dots<R, D>(d, douts, values);
    UNROLL for (int r = 0; r < R; ++r) UNROLL for (int c = 0; c < R; ++c) {
      weights.make(i0 + ty() * R + r, j0 + tx() + kSide * c, s[r][c], d[r][c]);
      ds[(ty() * R + r) * kPitch<W, rows> + tx() + kSide * c] = d[r][c];
    }
    __syncwarp();
    add_products<R, D>(total, ds, keys);
  }
  store_rows<R, D>(dq, share, total, static_cast<W>(shape.scale), at, shape, grads.q, i0, shape.seq, shape.key);
}

/// Rows are keys here, columns queries.
template <typename T, int D>
__global__ void __launch_bounds__(kThreads, D <= 64 ? 2 : 1)
    attention_grad_keys(T *dk, Wide<T> *shareK, T *dv, Wide<T> *shareV, const T *dout, const T *q, const T *k,
                        const T *v, const Wide<T> *maximum, const Wide<T> *sum, const Wide<T> *dotsOf,
                        const uint8_t *mask, const T *bias, AttentionShape shape, AttentionStrides strides,
                        AttentionStrides grads) {
  using W = Wide<T>;
  constexpr int R = kPart<W, D>, rows = R * kSide, matrix = rows * kPitch<W, D>;
  W *keys = shared_memory<W>(), *values = keys + matrix, *queries = values + matrix, *douts = queries + matrix,
    *p = douts + matrix, *ds = p + rows * kPitch<W, rows>;
  const int64_t tiles = (shape.past + rows - 1) / rows;
  const Slice at = slice_of(shape, blockIdx.x / tiles);
  const int64_t j0 = blockIdx.x % tiles * rows;
  const Weights<T> weights(shape, at, {dout, q, k, v, maximum, sum, dotsOf, mask, bias});
  W ofKeys[R][D / kSide] = {}, ofValues[R][D / kSide] = {};
  load_rows<rows, D>(keys, k + at.in(strides.k), strides.k.row, j0, shape.past, shape.key);
  load_rows<rows, D>(values, v + at.in(strides.v), strides.v.row, j0, shape.past, shape.value);
  int64_t first = shape.causal ? j0 - shape.offset : 0; // the first query that sees the first of these keys
  first = first > 0 ? first / rows * rows : 0;
  for (int64_t i0 = first; i0 < shape.seq; i0 += rows) {
    __syncthreads(); // the queries before may still be read
    load_rows<rows, D>(queries, q + at.in(strides.q), strides.q.row, i0, shape.seq, shape.key);
    load_rows<rows, D>(douts, dout + at.in(grads.out), grads.out.row, i0, shape.seq, shape.value);
    __syncthreads();
    W s[R][R], d[R][R];
    dots<R, D>(s, keys, queries);
    dots<R, D>(d, values, douts);
    UNROLL for (int r = 0; r < R; ++r) UNROLL for (int c = 0; c < R; ++c) {
      weights.make(i0 + tx() + kSide * c, j0 + ty() * R + r, s[r][c], d[r][c]);
      const int place = (ty() * R + r) * kPitch<W, rows> + tx() + kSide * c;
      p[place] = s[r][c];
      ds[place] = d[r][c];
    }
    __syncwarp();
    add_products<R, D>(ofValues, p, douts);
    add_products<R, D>(ofKeys, ds, queries);
  }
  store_rows<R, D>(dk, shareK, ofKeys, static_cast<W>(shape.scale), at, shape, grads.k, j0, shape.past, shape.key);
  store_rows<R, D>(dv, shareV, ofValues, W(1), at, shape, grads.v, j0, shape.past, shape.value);
}

/// Of a bias, the tiles that it distinguishes: the block goes through all (batch, group, head, query, key) that share
/// one.
struct BiasBlocks {
  int64_t batch, group, head, iTiles, jTiles; // 1 where the bias's stride is 0
  int64_t all() const { return batch * group * head * iTiles * jTiles; }
};

template <typename T, int D>
__global__ void __launch_bounds__(kThreads, 1)
    attention_grad_bias(T *dbias, const T *dout, const T *q, const T *k, const T *v, const Wide<T> *maximum,
                        const Wide<T> *sum, const Wide<T> *dotsOf, const uint8_t *mask, const T *bias,
                        AttentionShape shape, AttentionStrides strides, AttentionStrides grads, BiasBlocks blocks) {
  using W = Wide<T>;
  constexpr int R = kPart<W, D>, rows = R * kSide, matrix = rows * kPitch<W, D>;
  __shared__ W parts[32];
  W *queries = shared_memory<W>(), *douts = queries + matrix, *keys = douts + matrix, *values = keys + matrix,
    *tile = values + matrix;
  int64_t rest = blockIdx.x;
  const int64_t j = rest % blocks.jTiles;
  const int64_t i = (rest /= blocks.jTiles) % blocks.iTiles;
  const int64_t h = (rest /= blocks.iTiles) % blocks.head;
  const int64_t g = (rest /= blocks.head) % blocks.group, b = rest / blocks.group;
  const ScoreStrides &own = shape.bias;
  const bool sumsSeq = own.seq == 0, sumsPast = own.past == 0;
  const int64_t iEnd = sumsSeq ? shape.seq : (i + 1) * rows, jEnd = sumsPast ? shape.past : (j + 1) * rows;

  W total[R][R] = {};
  for (int64_t number = 0; number < shape.batch * shape.group * shape.head; ++number) {
    const Slice at = slice_of(shape, number);
    if ((blocks.batch > 1 && at.b != b) || (blocks.group > 1 && at.g != g) || (blocks.head > 1 && at.h != h))
      continue; // the same for the whole block
    const Weights<T> weights(shape, at, {dout, q, k, v, maximum, sum, dotsOf, mask, bias});
    for (int64_t i0 = i * rows; i0 < iEnd; i0 += rows)
      for (int64_t j0 = j * rows; j0 < jEnd; j0 += rows) {
        __syncthreads();
        load_rows<rows, D>(queries, q + at.in(strides.q), strides.q.row, i0, shape.seq, shape.key);
        load_rows<rows, D>(douts, dout + at.in(grads.out), grads.out.row, i0, shape.seq, shape.value);
        load_rows<rows, D>(keys, k + at.in(strides.k), strides.k.row, j0, shape.past, shape.key);
        load_rows<rows, D>(values, v + at.in(strides.v), strides.v.row, j0, shape.past, shape.value);
        __syncthreads();
        W s[R][R], d[R][R];
        dots<R, D>(s, queries, keys);
        dots<R, D>(d, douts, values);
        UNROLL for (int r = 0; r < R; ++r) UNROLL for (int c = 0; c < R; ++c) {
          weights.make(i0 + ty() * R + r, j0 + tx() + kSide * c, s[r][c], d[r][c]);
          total[r][c] += d[r][c];
        }
      }
  }

  T *to = dbias + b * own.batch + g * own.group + h * own.head;
  const int64_t i0 = i * rows, j0 = j * rows;
  W mine = 0;
  UNROLL for (int r = 0; r < R; ++r) UNROLL for (int c = 0; c < R; ++c) {
    tile[(ty() * R + r) * kPitch<W, rows> + tx() + kSide * c] = total[r][c];
    mine += total[r][c];
    const int64_t row = i0 + ty() * R + r, column = j0 + tx() + kSide * c;
    if (!sumsSeq && !sumsPast && row < shape.seq && column < shape.past)
      leave(to[row * own.seq + column * own.past], total[r][c], shape);
  }
  const W all = block_sum(mine, parts); // whose barriers stand between writing the tile and reading it
  const int t = static_cast<int>(threadIdx.x);
  if (sumsSeq && sumsPast) {
    if (t == 0)
      leave(to[0], all, shape);
  } else if (sumsSeq && t < rows && j0 + t < shape.past) {
    W column = 0;
    for (int r = 0; r < rows; ++r)
      column += tile[r * kPitch<W, rows> + t];
    leave(to[(j0 + t) * own.past], column, shape);
  } else if (sumsPast && t < rows && i0 + t < shape.seq) {
    W row = 0;
    for (int c = 0; c < rows; ++c)
      row += tile[t * kPitch<W, rows> + c];
    leave(to[(i0 + t) * own.seq], row, shape);
  }
}

/// Over (batch, group, head, rows): how often a step is added up, and how often it is a place of its own.
struct SharedDims {
  int64_t places[4], sums[4];
};

/// A thread for each element of a target: the sum of the slices' shares, in order.
template <typename T>
__global__ void sum_shares(T *to, const Wide<T> *share, SharedDims dims, HeadStrides strides, int64_t count,
                           int64_t width, AttentionShape shape) {
  if (element() < count) {
    int64_t at[4], rest = element() / width;
    const int64_t column = element() % width;
    UNROLL for (int k = 3; k >= 0; --k) {
      at[k] = rest % dims.places[k];
      rest /= dims.places[k];
    }
    Wide<T> sum = 0;
    for (int64_t b = 0; b < dims.sums[0]; ++b)
      for (int64_t g = 0; g < dims.sums[1]; ++g)
        for (int64_t h = 0; h < dims.sums[2]; ++h)
          for (int64_t r = 0; r < dims.sums[3]; ++r) {
            // One of places and sums is 1, so at + step is the position.
            const int64_t slice =
                ((at[0] + b) * dims.places[1] * dims.sums[1] + at[1] + g) * dims.places[2] * dims.sums[2] + at[2] + h;
            sum += share[(slice * dims.places[3] * dims.sums[3] + at[3] + r) * width + column];
          }
    leave(to[at[0] * strides.batch + at[1] * strides.group + at[2] * strides.head + at[3] * strides.row + column], sum,
          shape);
  }
}

template <typename T>
void sumShares(Stream stream, T *to, const Wide<T> *share, const AttentionShape &shape, const HeadStrides &strides,
               int64_t rows, int64_t width) {
  const int64_t sizes[4] = {shape.batch, shape.group, shape.head, rows};
  const int64_t steps[4] = {strides.batch, strides.group, strides.head, strides.row};
  SharedDims dims;
  int64_t count = width, shares = width;
  for (int k = 0; k < 4; ++k) {
    dims.places[k] = steps[k] == 0 ? 1 : sizes[k];
    dims.sums[k] = steps[k] == 0 ? sizes[k] : 1;
    count *= dims.places[k];
    shares *= sizes[k];
  }
  if (count > 0)
    launch("attention_grad", sum_shares<T>, cover(count), stream,
           made(shape, to, extentOf(shape, strides, rows, width)), in(share, shares), dims, strides, count, width,
           shape);
}

} // namespace

template <typename T>
void attention_grad(Stream stream, T *dq, T *dk, T *dv, T *dbias, const T *dout, const T *out, const Wide<T> *maximum,
                    const Wide<T> *sum, const T *q, const T *k, const T *v, const AttentionShape &shape,
                    const AttentionStrides &strides, const AttentionStrides &grads, const uint8_t *mask, const T *bias,
                    Wide<T> *scratch) {
  using W = Wide<T>;
  const AttentionGradScratch places(shape, grads);
  const int64_t slices = slicesOf(shape), queries = slices * shape.seq;
  if (slices <= 0)
    return;
  W *dots = scratch + places.dots;
  // The shares are null where a target has places of its own, which are then written at once.
  W *shareQ = places.sharesQ ? scratch + places.dq : nullptr, *shareK = places.sharesK ? scratch + places.dk : nullptr,
    *shareV = places.sharesV ? scratch + places.dv : nullptr;
  const auto place = [&](T *x, const W *share, int64_t extent) { return made(shape, x, share ? 0 : extent); };
  const auto dense = [](W *share, int64_t count) { return cuda::out(share, share ? count : 0); };
  const Arg<const T> readsDout = in(dout, extentOf(shape, grads.out, shape.seq, shape.value)),
                     readsQ = in(q, extentOf(shape, strides.q, shape.seq, shape.key)),
                     readsK = in(k, extentOf(shape, strides.k, shape.past, shape.key)),
                     readsV = in(v, extentOf(shape, strides.v, shape.past, shape.value)),
                     readsBias = in(bias, bias ? extentOf(shape, shape.bias) : 0);
  const Arg<const uint8_t> readsMask = in(mask, mask ? extentOf(shape, shape.mask) : 0);
  const Arg<const W> readsMaximum = in(maximum, statisticsOf(shape)), readsSum = in(sum, statisticsOf(shape)),
                     readsDots = in(static_cast<const W *>(dots), queries);
  const int64_t countQ = queries * shape.key, countK = slices * shape.past * shape.key,
                countV = slices * shape.past * shape.value;

  if (queries > 0)
    launch("attention_grad", attention_dots<T>, cover_warps(queries), stream, cuda::out(dots, queries), readsDout,
           in(out, extentOf(shape, strides.out, shape.seq, shape.value)), shape, grads.out, strides.out, queries);
  withHeadSize(shape, [&](auto size) {
    constexpr int D = decltype(size)::value, rows = kPart<W, D> * kSide;
    constexpr size_t matrices = sizeof(W) * rows * 4 * kPitch<W, D>, square = sizeof(W) * rows * kPitch<W, rows>;
    const int64_t iTiles = (shape.seq + rows - 1) / rows, jTiles = (shape.past + rows - 1) / rows;
    const auto blocks = [](int64_t count, size_t shared) {
      Shape result = cover_blocks(count);
      result.shared = shared;
      return result;
    };
    if (countQ > 0)
      launch("attention_grad", attention_grad_queries<T, D>, blocks(iTiles * slices, matrices + square), stream,
             place(dq, shareQ, extentOf(shape, grads.q, shape.seq, shape.key)), dense(shareQ, countQ), readsDout,
             readsQ, readsK, readsV, readsMaximum, readsSum, readsDots, readsMask, readsBias, shape, strides, grads);
    if (countK > 0 || countV > 0)
      launch("attention_grad", attention_grad_keys<T, D>, blocks(jTiles * slices, matrices + 2 * square), stream,
             place(dk, shareK, extentOf(shape, grads.k, shape.past, shape.key)), dense(shareK, countK),
             place(dv, shareV, extentOf(shape, grads.v, shape.past, shape.value)), dense(shareV, countV), readsDout,
             readsQ, readsK, readsV, readsMaximum, readsSum, readsDots, readsMask, readsBias, shape, strides, grads);
    if (dbias && shape.seq > 0 && shape.past > 0) {
      const ScoreStrides &s = shape.bias;
      const BiasBlocks of = {s.batch ? shape.batch : 1, s.group ? shape.group : 1, s.head ? shape.head : 1,
                             s.seq ? iTiles : 1, s.past ? jTiles : 1};
      launch("attention_grad", attention_grad_bias<T, D>, blocks(of.all(), matrices + square), stream,
             made(shape, dbias, extentOf(shape, s)), readsDout, readsQ, readsK, readsV, readsMaximum, readsSum,
             readsDots, readsMask, readsBias, shape, strides, grads, of);
    }
  });
  if (shareQ)
    sumShares(stream, dq, static_cast<const W *>(shareQ), shape, grads.q, shape.seq, shape.key);
  if (shareK)
    sumShares(stream, dk, static_cast<const W *>(shareK), shape, grads.k, shape.past, shape.key);
  if (shareV)
    sumShares(stream, dv, static_cast<const W *>(shareV), shape, grads.v, shape.past, shape.value);
}

#define INSTANTIATE(T)                                                                                                 \
  template void attention_grad<T>(Stream, T *, T *, T *, T *, const T *, const T *, const Wide<T> *, const Wide<T> *,  \
                                  const T *, const T *, const T *, const AttentionShape &, const AttentionStrides &,   \
                                  const AttentionStrides &, const uint8_t *, const T *, Wide<T> *);
INSTANTIATE(float)
INSTANTIATE(double)
INSTANTIATE(bf16)
INSTANTIATE(fp16)
#undef INSTANTIATE

} // namespace echelon::cuda
