// The derivative of attention, a slice at a time, blocks of keys by blocks of queries, the latter in panels of six.
// Probabilities again from the kept maximum and sum, p = exp(s - maximum) / sum, then with D = sum(dout * out):
//   dv += p^T dout,  ds = p * (dout v^T - D),  dq += scale ds k,  dk += scale ds^T q,  dbias += ds.
#include "runtime/kernels/Copy.h"
#include "runtime/kernels/cpu/AttentionSlice.h"
#include "runtime/kernels/cpu/ExpSums.h"

namespace echelon::runtime {
namespace {

using namespace detail;

constexpr int64_t kQueries = 96; // of a block: its p and ds are 200 KiB
static_assert(kQueries % kTileRows == 0);

/// The backward pass of one slice. Targets are added to where they were cleared, else overwritten.
template <typename T> struct Backward : Operands<T> {
  using Operands<T>::shape, Operands<T>::strides, Operands<T>::at, Operands<T>::mask, Operands<T>::bias;
  using Operands<T>::q, Operands<T>::k, Operands<T>::v;
  const AttentionStrides &grads;
  T *dq, *dk, *dv, *dbias; // of this slice
  const T *dout, *out, *maximum, *sum;
  bool addsQ, addsKv;
  NextSlice<T> next;
  T *keys, *keysAcross, *valuesAcross, *queries, *douts, *p, *ds, *dots; // scratch

  void run() {
    const int64_t last = keysSeen(shape, shape.seq);
    for (int64_t i = 0; !addsQ && i < shape.seq && keysSeen(shape, i + 1) <= 0; ++i) // those that see nothing
      std::fill_n(dq + i * grads.q.row, shape.key, T(0));
    for (int64_t j = last; !addsKv && j < shape.past; ++j) { // and those that nobody sees
      std::fill_n(dk + j * grads.k.row, shape.key, T(0));
      std::fill_n(dv + j * grads.v.row, shape.value, T(0));
    }
    for (int64_t i = 0; i < shape.seq; ++i) {
      const T *o = out + i * strides.out.row, *d = dout + i * grads.out.row;
      dots[i] = static_cast<T>(
          sum_of_vectors<T>(shape.value, [=](auto in, int64_t c) { return in.load(o + c) * in.load(d + c); }));
    }
    const int64_t parts = (shape.seq + kQueries - 1) / kQueries;
    const int64_t step = round_up((shape.seq + parts - 1) / std::max<int64_t>(1, parts), kTileRows);
    for (int64_t j0 = 0; j0 < last; j0 += kKeys) {
      const int64_t keysHere = std::min(kKeys, last - j0);
      const T *kj = k + j0 * strides.k.row, *vj = v + j0 * strides.v.row;
      pack_strips_transposed(keysAcross, kj, strides.k.row, shape.key, keysHere);
      pack_strips_transposed(valuesAcross, vj, strides.v.row, shape.value, keysHere);
      pack_strips(keys, kj, strides.k.row, keysHere, shape.key);
      for (int64_t i0 = 0; i0 < shape.seq; i0 += step) {
        const int64_t rows = std::min(step, shape.seq - i0), limit = keysSeen(shape, i0 + rows);
        if (limit > j0)
          block({i0, rows, j0, std::min(keysHere, limit - j0)}, keysHere);
      }
    }
  }

  void block(const Panel &all, int64_t depth) {
    const int64_t ld = rowOf<T>(kKeys), i0 = all.i0, j0 = all.j0;
    pack_strips(queries, q + i0 * strides.q.row, strides.q.row, all.rows, shape.key);
    pack_strips(douts, dout + i0 * grads.out.row, grads.out.row, all.rows, shape.value);
    for (int64_t r = 0; r < all.rows; r += kTileRows) {
      next.some();
      Panel panel{i0 + r, std::min(kTileRows, all.rows - r), j0, 0};
      panel.cols = std::min(all.cols, keysSeen(shape, panel.i0 + panel.rows) - j0);
      if (panel.cols > 0)
        panelOf(panel, p + r * ld, ds + r * ld, depth, all.cols);
    }
    for (int64_t j = 0; j < all.cols; j += kTileRows) {
      // The first panel of queries that sees the first of these keys.
      const int64_t first = shape.causal ? std::max<int64_t>(0, j0 + j - shape.offset - i0) / kTileRows * kTileRows : 0;
      const int64_t keysNow = std::min(kTileRows, all.cols - j), queriesNow = all.rows - first;
      multiply_panel<T>(dv + (j0 + j) * grads.v.row, grads.v.row, keysNow, shape.value, {p + first * ld + j, 1, ld},
                        douts, all.rows, first, queriesNow, T(1), addsKv);
      multiply_panel<T>(dk + (j0 + j) * grads.k.row, grads.k.row, keysNow, shape.key, {ds + first * ld + j, 1, ld},
                        queries, all.rows, first, queriesNow, T(shape.scale), addsKv);
    }
  }

  /// p and ds of six queries, and dq from them.
  void panelOf(const Panel &panel, T *pr, T *dr, int64_t depth, int64_t keysHere) {
    constexpr int64_t w = Lanes<T>::width;
    const int64_t ld = rowOf<T>(kKeys), i0 = panel.i0, wide = round_up(panel.cols, kStrip<T>);
    multiply_panel<T>(pr, ld, panel.rows, wide, {q + i0 * strides.q.row, strides.q.row, 1}, keysAcross, shape.key, 0,
                      shape.key, T(shape.scale), false);
    if (bias || mask)
      biasAndMask(pr, ld, shape, at, panel, mask, bias);
    multiply_panel<T>(dr, ld, panel.rows, wide, {dout + i0 * grads.out.row, grads.out.row, 1}, valuesAcross,
                      shape.value, 0, shape.value, T(1), false);
    for (int64_t r = 0; r < panel.rows; ++r) {
      const int64_t n = panel.seen(shape, r), i = i0 + r;
      T *a = pr + r * ld, *b = dr + r * ld;
      const Vector<T> dot = every(dots[i]), shift = every(shift_of(maximum[i]));
      const Vector<T> scale = every(sum[i] == T(0) ? T(0) : T(1) / sum[i]);
      auto take = [&](int64_t c, auto here) {
        Vector<T> e = only<T>(here, exp_down(Whole().load(a + c) - shift) * scale);
        Whole().store(a + c, e);
        Whole().store(b + c, only<T>(here, e * (Whole().load(b + c) - dot)));
      };
      const auto all = first_lanes<T>(w);
      int64_t c = 0;
      for (; c + w <= n; c += w)
        take(c, all);
      // Zeros up to where a panel of keys that begins before may end.
      const int64_t end = std::min(round_up(panel.cols, kTileRows), keysHere);
      for (; c < end; c += w)
        take(c, first_lanes<T>(std::clamp<int64_t>(n - c, 0, w)));
    }
    multiply_panel<T>(dq + i0 * grads.q.row, grads.q.row, panel.rows, shape.key, {dr, ld, 1}, keys, depth, 0,
                      panel.cols, T(shape.scale), addsQ);
    if (dbias)
      add_strided(dbias + i0 * shape.bias.seq + panel.j0 * shape.bias.past, {shape.bias.seq, shape.bias.past}, dr,
                  {ld, 1}, {panel.rows, panel.cols});
  }
};

} // namespace

template <typename T>
void attention_grad(T *dq, T *dk, T *dv, T *dbias, const T *dout, const T *out, const T *maximum, const T *sum,
                    const T *q, const T *k, const T *v, const AttentionShape &shape, const AttentionStrides &strides,
                    const AttentionStrides &grads, const uint8_t *mask, const T *bias) {
  auto clear = [&](T *x, const HeadStrides &s, int64_t last, int64_t rows, int64_t width) {
    int64_t steps[5] = {s.batch, s.group, s.head, s.row, last};
    int64_t sizes[5] = {shape.batch, shape.group, shape.head, rows, width};
    fill_strided(x, steps, sizes, 5, T(0));
  };
  auto hasOwnPlaces = [&](const HeadStrides &s) {
    return (s.batch || shape.batch == 1) && (s.group || shape.group == 1) && (s.head || shape.head == 1) && s.row;
  };
  // What one block adds to all by itself is written there. The others, and what several slices share, is summed.
  const bool addsQ = shape.adds || shape.past > kKeys || !hasOwnPlaces(grads.q);
  const bool addsKv = shape.adds || shape.seq > kQueries || !hasOwnPlaces(grads.k) || !hasOwnPlaces(grads.v);
  if (addsQ && !shape.adds)
    clear(dq, grads.q, 1, shape.seq, shape.key);
  if (addsKv && !shape.adds) {
    clear(dk, grads.k, 1, shape.past, shape.key);
    clear(dv, grads.v, 1, shape.past, shape.value);
  }
  const ScoreStrides &b = shape.bias;
  if (dbias && !shape.adds)
    clear(dbias, {b.batch, b.group, b.head, b.seq}, b.past, shape.seq, shape.past);
  Workspace<T> &w = workspace<T>();
  const int64_t some = std::min(kKeys, shape.past), block = kQueries * rowOf<T>(kKeys);
  T *keys = w.get(0, strips_size<T>(some, shape.key));
  T *keysAcross = w.get(1, strips_size<T>(shape.key, some));
  T *valuesAcross = w.get(2, strips_size<T>(shape.value, some));
  T *queries = w.get(3, strips_size<T>(kQueries, shape.key));
  T *douts = w.get(4, strips_size<T>(kQueries, shape.value));
  T *p = w.get(5, block), *ds = w.get(6, block), *dots = w.get(7, shape.seq);
  const Operands<T> all{shape, strides, q, k, v, mask, bias};
  overSlices(shape, [&](Slice at) {
    NextSlice<T> next(shape);
    if (Slice after = at; advance(shape, after)) {
      all.of(after).ask(next);
      next.needs(out + after.in(strides.out), shape.seq, strides.out.row, shape.value);
      next.needs(dout + after.in(grads.out), shape.seq, grads.out.row, shape.value);
      next.needs(dq + after.in(grads.q), shape.seq, grads.q.row, shape.key);
      next.needs(dk + after.in(grads.k), shape.past, grads.k.row, shape.key);
      next.needs(dv + after.in(grads.v), shape.past, grads.v.row, shape.value);
    }
    Backward<T>{all.of(at),
                grads,
                dq + at.in(grads.q),
                dk + at.in(grads.k),
                dv + at.in(grads.v),
                dbias ? dbias + at.in(shape.bias) : nullptr,
                dout + at.in(grads.out),
                out + at.in(strides.out),
                maximum + at.row(shape),
                sum + at.row(shape),
                addsQ,
                addsKv,
                next,
                keys,
                keysAcross,
                valuesAcross,
                queries,
                douts,
                p,
                ds,
                dots}
        .run();
  });
}

#define INSTANTIATE(T)                                                                                                 \
  template void attention_grad<T>(T *, T *, T *, T *, const T *, const T *, const T *, const T *, const T *,           \
                                  const T *, const T *, const AttentionShape &, const AttentionStrides &,              \
                                  const AttentionStrides &, const uint8_t *, const T *);
INSTANTIATE(float)
INSTANTIATE(double)
#undef INSTANTIATE

} // namespace echelon::runtime
