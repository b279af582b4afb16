// Attention, a (batch, group, head) slice at a time. Keys come in blocks, of which keys and values are packed once for
// all queries; queries in panels of six, each of which sees its own number of keys, so that what causality hides is
// neither multiplied nor exponentiated. Forward: the scores of a panel, which stay in the L1 cache, running maximum m
// and sum l per query; what was accumulated is scaled by exp(m_old - m_new) when a later block moves the maximum.
// Backward: probabilities again from the kept lse, p = exp(s - lse), then with D = sum(dout * out):
//   dv += p^T dout,  ds = p * (dout v^T - D),  dq += scale ds k,  dk += scale ds^T q,  dbias += ds.
#include "runtime/kernels/Attention.h"
#include "runtime/kernels/BlockedSum.h"
#include "runtime/kernels/Copy.h"
#include "runtime/kernels/Strips.h"
#include <cmath>
#include <vector>

namespace echelon::runtime {
namespace {

using detail::every, detail::exp_down, detail::kStrip, detail::kTileRows, detail::over_vectors, detail::Vector,
    detail::Whole;

constexpr int64_t kKeys = 256;   // of a block: in float, keys and values of 64 are 128 KiB of the L2 cache
constexpr int64_t kQueries = 96; // of a block in the backward pass: its p and ds are 200 KiB
static_assert(kQueries % kTileRows == 0);

template <typename T> constexpr T kMinusInf = -std::numeric_limits<T>::infinity();

/// Which of the (batch, group, head) slices is meant.
struct Slice {
  int64_t b, g, h;
  int64_t in(const HeadStrides &s) const { return b * s.batch + g * s.group + h * s.head; }
  int64_t in(const ScoreStrides &s) const { return b * s.batch + g * s.group + h * s.head; }
  int64_t row(const AttentionShape &s) const { return ((b * s.group + g) * s.head + h) * s.seq; }
};

template <typename Body> void overSlices(const AttentionShape &shape, Body body) {
  for (int64_t b = 0; b < shape.batch; ++b)
    for (int64_t g = 0; g < shape.group; ++g)
      for (int64_t h = 0; h < shape.head; ++h)
        body(Slice{b, g, h});
}

/// How many keys, from the first, the queries up to and without `end` may see.
int64_t keysSeen(const AttentionShape &shape, int64_t end) {
  return shape.causal ? std::max<int64_t>(0, std::min(shape.past, end + shape.offset)) : shape.past;
}

/// A panel of queries i0 .. i0 + rows and a block of keys from j0: which scores there are.
struct Panel {
  int64_t i0, rows, j0, cols; // cols: what the last query sees of the block
  int64_t seen(const AttentionShape &shape, int64_t r) const {
    return shape.causal ? std::clamp<int64_t>(i0 + r + shape.offset + 1 - j0, 0, cols) : cols;
  }
};

/// Adds the bias to scores: (rows, cols), ld apart, and puts -inf where the mask forbids to look.
template <typename T>
void biasAndMask(T *scores, int64_t ld, const AttentionShape &shape, Slice at, const Panel &panel, const uint8_t *mask,
                 const T *bias) {
  for (int64_t r = 0; r < panel.rows; ++r) {
    T *row = scores + r * ld;
    const int64_t i = panel.i0 + r;
    if (bias) {
      const T *b = bias + at.in(shape.bias) + i * shape.bias.seq + panel.j0 * shape.bias.past;
      for (int64_t c = 0; c < panel.cols; ++c)
        row[c] += b[c * shape.bias.past];
    }
    if (mask) {
      const uint8_t *m = mask + at.in(shape.mask) + i * shape.mask.seq + panel.j0 * shape.mask.past;
      for (int64_t c = 0; c < panel.cols; ++c)
        row[c] = m[c * shape.mask.past] ? row[c] : kMinusInf<T>;
    }
  }
}

/// Scratch of this thread, kept between calls.
template <typename T> struct Workspace {
  std::vector<T> kept[8];
  T *get(int which, int64_t n) {
    std::vector<T> &v = kept[which];
    if (static_cast<int64_t>(v.size()) < n)
      v.resize(n);
    return v.data();
  }
};
template <typename T> Workspace<T> &workspace() {
  thread_local Workspace<T> w;
  return w;
}

/// The rows of p and ds lie this far apart: whole strips, room for zeros that fill a panel of keys, and no power of
/// two.
template <typename T> int64_t rowOf(int64_t keys) { return detail::round_up(keys, kStrip<T>) + kStrip<T>; }

/// What both passes read: all of it, or one slice's q, k and v.
template <typename T> struct Operands {
  const AttentionShape &shape;
  const AttentionStrides &strides;
  const T *q, *k, *v;
  const uint8_t *mask;
  const T *bias;
  Slice at = {};
  Operands of(Slice slice) const {
    return {shape, strides, q + slice.in(strides.q), k + slice.in(strides.k), v + slice.in(strides.v), mask,
            bias,  slice};
  }
};

/// The forward pass of one slice.
template <typename T> struct Forward : Operands<T> {
  using Operands<T>::shape, Operands<T>::strides, Operands<T>::at, Operands<T>::mask, Operands<T>::bias;
  using Operands<T>::q, Operands<T>::k, Operands<T>::v;
  T *out, *lse;                      // of this slice
  T *keys, *values, *scores, *m, *l; // scratch

  void run() {
    std::fill_n(m, shape.seq, kMinusInf<T>);
    std::fill_n(l, shape.seq, T(0));
    const int64_t last = keysSeen(shape, shape.seq);
    for (int64_t j0 = 0; j0 < last; j0 += kKeys) {
      const int64_t keysHere = std::min(kKeys, last - j0);
      detail::pack_strips_transposed(keys, k + j0 * strides.k.row, strides.k.row, shape.key, keysHere);
      detail::pack_strips(values, v + j0 * strides.v.row, strides.v.row, keysHere, shape.value);
      for (int64_t i0 = 0; i0 < shape.seq; i0 += kTileRows) {
        const int64_t rows = std::min(kTileRows, shape.seq - i0), limit = keysSeen(shape, i0 + rows);
        if (limit > j0)
          block({i0, rows, j0, std::min(keysHere, limit - j0)}, keysHere);
        if (limit > j0 && limit <= j0 + keysHere)
          finish(i0, rows);
      }
    }
    for (int64_t i = 0; i < shape.seq; ++i)
      lse[i] = math::select(m[i] == kMinusInf<T>, m[i], m[i] + math::log(l[i]));
    for (int64_t i = 0; i < shape.seq && keysSeen(shape, i + 1) <= 0; ++i) { // the first ones may see nothing
      std::fill_n(out + i * strides.out.row, shape.value, T(0));
      lse[i] = kMinusInf<T>;
    }
  }

  /// Scores of a panel, then p in their place, and what p adds to the result.
  void block(const Panel &panel, int64_t depth) {
    const int64_t ld = rowOf<T>(kKeys), i0 = panel.i0;
    detail::multiply_panel<T>(scores, ld, panel.rows, detail::round_up(panel.cols, kStrip<T>),
                              {q + i0 * strides.q.row, strides.q.row, 1}, keys, shape.key, 0, shape.key, T(shape.scale),
                              false);
    if (bias || mask)
      biasAndMask(scores, ld, shape, at, panel, mask, bias);
    for (int64_t r = 0; r < panel.rows; ++r)
      exponentials(scores + r * ld, panel, r);
    detail::multiply_panel<T>(out + i0 * strides.out.row, strides.out.row, panel.rows, shape.value, {scores, ld, 1},
                              values, depth, 0, panel.cols, T(1), panel.j0 > 0);
  }

  /// All queries of a panel take as many vectors; what a query does not see becomes -inf, then 0.
  void exponentials(T *row, const Panel &panel, int64_t r) {
    constexpr int64_t w = detail::Lanes<T>::width;
    const int64_t n = panel.seen(shape, r), i = panel.i0 + r, whole = n / w * w;
    Vector<T> most = every(m[i]);
    for (int64_t c = 0; c < whole; c += w)
      most = detail::larger<T>(Whole().load(row + c), most);
    for (int64_t c = whole; c < panel.cols; c += w) {
      auto here = detail::first_lanes<T>(std::clamp<int64_t>(n - c, 0, w));
      Vector<T> x = here ? Whole().load(row + c) : every(kMinusInf<T>);
      Whole().store(row + c, x);
      most = detail::larger<T>(x, most);
    }
    const T top = detail::across<T>(most, detail::larger<T>), shift = top == kMinusInf<T> ? T(0) : top;
    const Vector<T> s = every(shift);
    Vector<T> sums = {};
    for (int64_t c = 0; c < panel.cols; c += w) {
      Vector<T> e = exp_down(Whole().load(row + c) - s);
      Whole().store(row + c, e);
      sums += e;
    }
    if (panel.j0 > 0) {
      const T kept = math::exp(m[i] - shift);
      T *o = out + i * strides.out.row;
      for (int64_t c = 0; c < shape.value; ++c)
        o[c] *= kept;
      l[i] *= kept;
    }
    l[i] += detail::sum_across<T>(sums);
    m[i] = top;
  }

  void finish(int64_t i0, int64_t rows) {
    for (int64_t i = i0; i < i0 + rows; ++i) {
      const Vector<T> factor = every(l[i] == T(0) ? T(0) : T(1) / l[i]);
      T *o = out + i * strides.out.row;
      over_vectors<T>(shape.value, [&](auto in, int64_t c) { in.store(o + c, in.load(o + c) * factor); });
    }
  }
};

/// The backward pass of one slice. Targets are added to where they were cleared, else overwritten.
template <typename T> struct Backward : Operands<T> {
  using Operands<T>::shape, Operands<T>::strides, Operands<T>::at, Operands<T>::mask, Operands<T>::bias;
  using Operands<T>::q, Operands<T>::k, Operands<T>::v;
  const AttentionStrides &grads;
  T *dq, *dk, *dv, *dbias; // of this slice
  const T *dout, *out, *lse;
  bool addsQ, addsKv;
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
          detail::sum_of_vectors<T>(shape.value, [=](auto in, int64_t c) { return in.load(o + c) * in.load(d + c); }));
    }
    const int64_t parts = (shape.seq + kQueries - 1) / kQueries;
    const int64_t step = detail::round_up((shape.seq + parts - 1) / std::max<int64_t>(1, parts), kTileRows);
    for (int64_t j0 = 0; j0 < last; j0 += kKeys) {
      const int64_t keysHere = std::min(kKeys, last - j0);
      const T *kj = k + j0 * strides.k.row, *vj = v + j0 * strides.v.row;
      detail::pack_strips_transposed(keysAcross, kj, strides.k.row, shape.key, keysHere);
      detail::pack_strips_transposed(valuesAcross, vj, strides.v.row, shape.value, keysHere);
      detail::pack_strips(keys, kj, strides.k.row, keysHere, shape.key);
      for (int64_t i0 = 0; i0 < shape.seq; i0 += step) {
        const int64_t rows = std::min(step, shape.seq - i0), limit = keysSeen(shape, i0 + rows);
        if (limit > j0)
          block({i0, rows, j0, std::min(keysHere, limit - j0)}, keysHere);
      }
    }
  }

  void block(const Panel &all, int64_t depth) {
    const int64_t ld = rowOf<T>(kKeys), i0 = all.i0, j0 = all.j0;
    detail::pack_strips(queries, q + i0 * strides.q.row, strides.q.row, all.rows, shape.key);
    detail::pack_strips(douts, dout + i0 * grads.out.row, grads.out.row, all.rows, shape.value);
    for (int64_t r = 0; r < all.rows; r += kTileRows) {
      Panel panel{i0 + r, std::min(kTileRows, all.rows - r), j0, 0};
      panel.cols = std::min(all.cols, keysSeen(shape, panel.i0 + panel.rows) - j0);
      if (panel.cols > 0)
        panelOf(panel, p + r * ld, ds + r * ld, depth, all.cols);
    }
    for (int64_t j = 0; j < all.cols; j += kTileRows) {
      // The first panel of queries that sees the first of these keys.
      const int64_t first = shape.causal ? std::max<int64_t>(0, j0 + j - shape.offset - i0) / kTileRows * kTileRows : 0;
      const int64_t keysNow = std::min(kTileRows, all.cols - j), queriesNow = all.rows - first;
      detail::multiply_panel<T>(dv + (j0 + j) * grads.v.row, grads.v.row, keysNow, shape.value,
                                {p + first * ld + j, 1, ld}, douts, all.rows, first, queriesNow, T(1), addsKv);
      detail::multiply_panel<T>(dk + (j0 + j) * grads.k.row, grads.k.row, keysNow, shape.key,
                                {ds + first * ld + j, 1, ld}, queries, all.rows, first, queriesNow, T(shape.scale),
                                addsKv);
    }
  }

  /// p and ds of six queries, and dq from them.
  void panelOf(const Panel &panel, T *pr, T *dr, int64_t depth, int64_t keysHere) {
    constexpr int64_t w = detail::Lanes<T>::width;
    const int64_t ld = rowOf<T>(kKeys), i0 = panel.i0, wide = detail::round_up(panel.cols, kStrip<T>);
    detail::multiply_panel<T>(pr, ld, panel.rows, wide, {q + i0 * strides.q.row, strides.q.row, 1}, keysAcross,
                              shape.key, 0, shape.key, T(shape.scale), false);
    if (bias || mask)
      biasAndMask(pr, ld, shape, at, panel, mask, bias);
    detail::multiply_panel<T>(dr, ld, panel.rows, wide, {dout + i0 * grads.out.row, grads.out.row, 1}, valuesAcross,
                              shape.value, 0, shape.value, T(1), false);
    for (int64_t r = 0; r < panel.rows; ++r) {
      const int64_t n = panel.seen(shape, r), i = i0 + r;
      T *a = pr + r * ld, *b = dr + r * ld;
      const Vector<T> dot = every(dots[i]), shift = every(lse[i] == kMinusInf<T> ? T(0) : lse[i]);
      auto take = [&](int64_t c, auto here) {
        Vector<T> e = detail::only<T>(here, exp_down(Whole().load(a + c) - shift));
        Whole().store(a + c, e);
        Whole().store(b + c, detail::only<T>(here, e * (Whole().load(b + c) - dot)));
      };
      const auto all = detail::first_lanes<T>(w);
      int64_t c = 0;
      for (; c + w <= n; c += w)
        take(c, all);
      // Zeros up to where a panel of keys that begins before may end.
      const int64_t end = std::min(detail::round_up(panel.cols, kTileRows), keysHere);
      for (; c < end; c += w)
        take(c, detail::first_lanes<T>(std::clamp<int64_t>(n - c, 0, w)));
    }
    detail::multiply_panel<T>(dq + i0 * grads.q.row, grads.q.row, panel.rows, shape.key, {dr, ld, 1}, keys, depth, 0,
                              panel.cols, T(shape.scale), addsQ);
    if (dbias)
      add_strided(dbias + i0 * shape.bias.seq + panel.j0 * shape.bias.past, {shape.bias.seq, shape.bias.past}, dr,
                  {ld, 1}, {panel.rows, panel.cols});
  }
};

} // namespace

template <typename T>
void attention(T *out, T *lse, const T *q, const T *k, const T *v, const AttentionShape &shape,
               const AttentionStrides &strides, const uint8_t *mask, const T *bias) {
  Workspace<T> &w = workspace<T>();
  const int64_t some = std::min(kKeys, shape.past);
  T *keys = w.get(0, detail::strips_size<T>(shape.key, some)),
    *values = w.get(1, detail::strips_size<T>(some, shape.value));
  T *scores = w.get(2, kTileRows * rowOf<T>(kKeys)), *m = w.get(3, shape.seq), *l = w.get(4, shape.seq);
  const Operands<T> all{shape, strides, q, k, v, mask, bias};
  overSlices(shape, [&](Slice at) {
    Forward<T>{all.of(at), out + at.in(strides.out), lse + at.row(shape), keys, values, scores, m, l}.run();
  });
}

template <typename T>
void attention_grad(T *dq, T *dk, T *dv, T *dbias, const T *dout, const T *out, const T *lse, const T *q, const T *k,
                    const T *v, const AttentionShape &shape, const AttentionStrides &strides,
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
  const bool addsQ = shape.past > kKeys || !hasOwnPlaces(grads.q);
  const bool addsKv = shape.seq > kQueries || !hasOwnPlaces(grads.k) || !hasOwnPlaces(grads.v);
  if (addsQ)
    clear(dq, grads.q, 1, shape.seq, shape.key);
  if (addsKv) {
    clear(dk, grads.k, 1, shape.past, shape.key);
    clear(dv, grads.v, 1, shape.past, shape.value);
  }
  const ScoreStrides &b = shape.bias;
  if (dbias)
    clear(dbias, {b.batch, b.group, b.head, b.seq}, b.past, shape.seq, shape.past);
  Workspace<T> &w = workspace<T>();
  const int64_t some = std::min(kKeys, shape.past), block = kQueries * rowOf<T>(kKeys);
  T *keys = w.get(0, detail::strips_size<T>(some, shape.key));
  T *keysAcross = w.get(1, detail::strips_size<T>(shape.key, some));
  T *valuesAcross = w.get(2, detail::strips_size<T>(shape.value, some));
  T *queries = w.get(3, detail::strips_size<T>(kQueries, shape.key));
  T *douts = w.get(4, detail::strips_size<T>(kQueries, shape.value));
  T *p = w.get(5, block), *ds = w.get(6, block), *dots = w.get(7, shape.seq);
  const Operands<T> all{shape, strides, q, k, v, mask, bias};
  overSlices(shape, [&](Slice at) {
    Backward<T>{all.of(at),
                grads,
                dq + at.in(grads.q),
                dk + at.in(grads.k),
                dv + at.in(grads.v),
                dbias ? dbias + at.in(shape.bias) : nullptr,
                dout + at.in(grads.out),
                out + at.in(strides.out),
                lse + at.row(shape),
                addsQ,
                addsKv,
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

namespace reference {
template <typename T>
void attention(T *out, T *lse, const T *q, const T *k, const T *v, const AttentionShape &shape,
               const AttentionStrides &strides, const uint8_t *mask, const T *bias) {
  std::vector<double> s(shape.past);
  overSlices(shape, [&](Slice at) {
    for (int64_t i = 0; i < shape.seq; ++i) {
      double top = -INFINITY, sum = 0;
      for (int64_t j = 0; j < shape.past; ++j) {
        s[j] = 0;
        for (int64_t c = 0; c < shape.key; ++c)
          s[j] += shape.scale * double(q[at.in(strides.q) + i * strides.q.row + c]) *
                  double(k[at.in(strides.k) + j * strides.k.row + c]);
        if (bias)
          s[j] += bias[at.in(shape.bias) + i * shape.bias.seq + j * shape.bias.past];
        if ((mask && !mask[at.in(shape.mask) + i * shape.mask.seq + j * shape.mask.past]) ||
            (shape.causal && j > i + shape.offset))
          s[j] = -INFINITY;
        top = std::max(top, s[j]);
      }
      for (int64_t j = 0; j < shape.past; ++j)
        sum += s[j] = s[j] == -INFINITY ? 0 : std::exp(s[j] - top);
      lse[at.row(shape) + i] = static_cast<T>(sum == 0 ? -INFINITY : top + std::log(sum));
      for (int64_t c = 0; c < shape.value; ++c) {
        double o = 0;
        for (int64_t j = 0; j < shape.past; ++j)
          o += sum == 0 ? 0 : s[j] / sum * double(v[at.in(strides.v) + j * strides.v.row + c]);
        out[at.in(strides.out) + i * strides.out.row + c] = static_cast<T>(o);
      }
    }
  });
}
} // namespace reference

#define INSTANTIATE(T)                                                                                                 \
  template void attention<T>(T *, T *, const T *, const T *, const T *, const AttentionShape &,                        \
                             const AttentionStrides &, const uint8_t *, const T *);                                    \
  template void attention_grad<T>(T *, T *, T *, T *, const T *, const T *, const T *, const T *, const T *,           \
                                  const T *, const AttentionShape &, const AttentionStrides &,                         \
                                  const AttentionStrides &, const uint8_t *, const T *);                               \
  template void reference::attention<T>(T *, T *, const T *, const T *, const T *, const AttentionShape &,             \
                                        const AttentionStrides &, const uint8_t *, const T *);
INSTANTIATE(float)
INSTANTIATE(double)
#undef INSTANTIATE

} // namespace echelon::runtime
