// Attention, a slice at a time. Keys come in blocks, of which keys and values are packed once for all queries; queries
// in panels of six, each of which sees its own number of keys, so that what causality hides is neither multiplied nor
// exponentiated. The scores of a panel stay in the L1 cache; running maximum m and sum l per query; what was
// accumulated is scaled by exp(m_old - m_new) when a later block moves the maximum. A result that other keys gave
// before is what was accumulated over l, and is taken so.
#include "runtime/kernels/cpu/AttentionSlice.h"
#include <cmath>

namespace echelon::runtime {
namespace {

using namespace detail;

/// The forward pass of one slice.
template <typename T> struct Forward : Operands<T> {
  using Operands<T>::shape, Operands<T>::strides, Operands<T>::at, Operands<T>::mask, Operands<T>::bias;
  using Operands<T>::q, Operands<T>::k, Operands<T>::v;
  T *out, *m, *l; // of this slice: the result, and of each query the maximum and the sum of exponentials
  NextSlice<T> next;
  T *keys, *values, *scores; // scratch

  void run() {
    if (!shape.adds) {
      std::fill_n(m, shape.seq, kMinusInf<T>);
      std::fill_n(l, shape.seq, T(0));
    }
    const int64_t last = keysSeen(shape, shape.seq);
    for (int64_t j0 = 0; j0 < last; j0 += kKeys) {
      const int64_t keysHere = std::min(kKeys, last - j0);
      pack_strips_transposed(keys, k + j0 * strides.k.row, strides.k.row, shape.key, keysHere);
      pack_strips(values, v + j0 * strides.v.row, strides.v.row, keysHere, shape.value);
      for (int64_t i0 = 0; i0 < shape.seq; i0 += kTileRows) {
        const int64_t rows = std::min(kTileRows, shape.seq - i0), limit = keysSeen(shape, i0 + rows);
        next.some();
        if (limit > j0)
          block({i0, rows, j0, std::min(keysHere, limit - j0)}, keysHere);
        if (limit > j0 && limit <= j0 + keysHere)
          finish(i0, rows);
      }
    }
    for (int64_t i = 0; !shape.adds && i < shape.seq && keysSeen(shape, i + 1) <= 0;
         ++i) // the first ones may see nothing
      std::fill_n(out + i * strides.out.row, shape.value, T(0));
  }

  /// Scores of a panel, then p in their place, and what p adds to the result.
  void block(const Panel &panel, int64_t depth) {
    const int64_t ld = rowOf<T>(kKeys), i0 = panel.i0;
    multiply_panel<T>(scores, ld, panel.rows, round_up(panel.cols, kStrip<T>),
                      {q + i0 * strides.q.row, strides.q.row, 1}, keys, shape.key, 0, shape.key, T(shape.scale), false);
    if (bias || mask)
      biasAndMask(scores, ld, shape, at, panel, mask, bias);
    for (int64_t r = 0; r < panel.rows; ++r)
      exponentials(scores + r * ld, panel, r);
    multiply_panel<T>(out + i0 * strides.out.row, strides.out.row, panel.rows, shape.value, {scores, ld, 1}, values,
                      depth, 0, panel.cols, T(1), panel.j0 > 0 || shape.adds);
  }

  /// All queries of a panel take as many vectors; what a query does not see becomes -inf, then 0.
  void exponentials(T *row, const Panel &panel, int64_t r) {
    constexpr int64_t w = Lanes<T>::width;
    const int64_t n = panel.seen(shape, r), i = panel.i0 + r, whole = n / w * w;
    Vector<T> most = every(m[i]);
    for (int64_t c = 0; c < whole; c += w)
      most = larger<T>(Whole().load(row + c), most);
    for (int64_t c = whole; c < panel.cols; c += w) {
      auto here = first_lanes<T>(std::clamp<int64_t>(n - c, 0, w));
      Vector<T> x = here ? Whole().load(row + c) : every(kMinusInf<T>);
      Whole().store(row + c, x);
      most = larger<T>(x, most);
    }
    const T top = across<T>(most, larger<T>), shift = top == kMinusInf<T> ? T(0) : top;
    const Vector<T> s = every(shift);
    Vector<T> sums = {};
    for (int64_t c = 0; c < panel.cols; c += w) {
      Vector<T> e = exp_down(Whole().load(row + c) - s);
      Whole().store(row + c, e);
      sums += e;
    }
    if (panel.j0 > 0 || shape.adds) {
      const T kept = math::exp(m[i] - shift), factor = panel.j0 > 0 ? kept : kept * l[i];
      T *o = out + i * strides.out.row;
      for (int64_t c = 0; c < shape.value; ++c)
        o[c] *= factor;
      l[i] *= kept;
    }
    l[i] += sum_across<T>(sums);
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

} // namespace

template <typename T>
void attention(T *out, T *maximum, T *sum, const T *q, const T *k, const T *v, const AttentionShape &shape,
               const AttentionStrides &strides, const uint8_t *mask, const T *bias) {
  Workspace<T> &w = workspace<T>();
  const int64_t some = std::min(kKeys, shape.past);
  T *keys = w.get(0, strips_size<T>(shape.key, some)), *values = w.get(1, strips_size<T>(some, shape.value));
  T *scores = w.get(2, kTileRows * rowOf<T>(kKeys));
  const Operands<T> all{shape, strides, q, k, v, mask, bias};
  overSlices(shape, [&](Slice at) {
    NextSlice<T> next(shape);
    if (Slice after = at; advance(shape, after)) {
      all.of(after).ask(next);
      next.needs(out + after.in(strides.out), shape.seq, strides.out.row, shape.value);
    }
    T *m = maximum + at.row(shape), *l = sum + at.row(shape);
    Forward<T>{all.of(at), out + at.in(strides.out), m, l, next, keys, values, scores}.run();
  });
}

namespace reference {
template <typename T>
void attention(T *out, T *maximum, T *sums, const T *q, const T *k, const T *v, const AttentionShape &shape,
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
      maximum[at.row(shape) + i] = static_cast<T>(top);
      sums[at.row(shape) + i] = static_cast<T>(sum);
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
  template void attention<T>(T *, T *, T *, const T *, const T *, const T *, const AttentionShape &,                   \
                             const AttentionStrides &, const uint8_t *, const T *);                                    \
  template void reference::attention<T>(T *, T *, T *, const T *, const T *, const T *, const AttentionShape &,        \
                                        const AttentionStrides &, const uint8_t *, const T *);
INSTANTIATE(float)
INSTANTIATE(double)
#undef INSTANTIATE

} // namespace echelon::runtime
