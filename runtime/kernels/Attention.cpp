// Attention by blocks of queries and keys. Forward: scores of a block by one product, running maximum m and sum l per
// query, what was accumulated is scaled by exp(m_old - m_new) when the maximum moves. Backward: probabilities again
// from the kept lse, p = exp(s - lse), then with D = sum(dout * out):
//   dv += p^T dout,  ds = p * (dout v^T - D),  dq += scale ds k,  dk += scale ds^T q,  dbias += ds.
// Blocks that causality masks throughout are never visited.
#include "runtime/kernels/Attention.h"
#include "runtime/kernels/BlockedSum.h"
#include "runtime/kernels/Copy.h"
#include "runtime/kernels/Elementwise.h"
#include "runtime/kernels/Gemm.h"
#include <vector>

namespace echelon::runtime {
namespace {

constexpr int64_t kQueries = 64; // 64 x 512 floats of scores are a quarter of the L2 cache
constexpr int64_t kKeys = 512;

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

template <typename T>
void product(T *c, int64_t ldc, const T *a, int64_t lda, const T *b, int64_t ldb, int64_t m, int64_t n, int64_t k,
             Form form, double alpha, double beta) {
  bool transA = form == Form::tn || form == Form::tt, transB = form == Form::nt || form == Form::tt;
  gemm(c, a, b, m, n, k, form, lda, ldb, ldc, alpha, beta, choose_gemm(m, n, k, transA, transB, sizeof(T)));
}

/// Adds the bias to scores: (rows, cols) of queries from i0, keys from j0, and puts -inf where a query may not look.
template <typename T>
void biasAndMask(T *scores, const AttentionShape &shape, Slice at, int64_t i0, int64_t j0, int64_t rows, int64_t cols,
                 const uint8_t *mask, const T *bias) {
  for (int64_t r = 0; r < rows; ++r) {
    T *row = scores + r * cols;
    if (bias) {
      const T *b = bias + at.in(shape.bias) + (i0 + r) * shape.bias.seq + j0 * shape.bias.past;
      for (int64_t c = 0; c < cols; ++c)
        row[c] += b[c * shape.bias.past];
    }
    if (mask) {
      const uint8_t *m = mask + at.in(shape.mask) + (i0 + r) * shape.mask.seq + j0 * shape.mask.past;
      for (int64_t c = 0; c < cols; ++c)
        row[c] = m[c * shape.mask.past] ? row[c] : kMinusInf<T>;
    }
    if (shape.causal)
      for (int64_t c = std::max<int64_t>(0, i0 + r + shape.offset + 1 - j0); c < cols; ++c)
        row[c] = kMinusInf<T>;
  }
}

template <typename T> struct Workspace {
  std::vector<T> scores, other, rows;
};

/// Scratch of this thread, kept between calls.
template <typename T> Workspace<T> &workspace() {
  thread_local Workspace<T> w;
  return w;
}

template <typename T> T *atLeast(std::vector<T> &v, int64_t n) {
  if (static_cast<int64_t>(v.size()) < n)
    v.resize(n);
  return v.data();
}

} // namespace

template <typename T>
void attention(T *out, T *lse, const T *q, const T *k, const T *v, const AttentionShape &shape,
               const AttentionStrides &strides, const uint8_t *mask, const T *bias) {
  Workspace<T> &w = workspace<T>();
  T *p = atLeast(w.scores, kQueries * kKeys);
  T *acc = atLeast(w.other, kQueries * shape.value);
  overSlices(shape, [&](Slice at) {
    const T *qs = q + at.in(strides.q), *ks = k + at.in(strides.k), *vs = v + at.in(strides.v);
    T *os = out + at.in(strides.out);
    for (int64_t i0 = 0; i0 < shape.seq; i0 += kQueries) {
      int64_t rows = std::min(kQueries, shape.seq - i0), limit = keysSeen(shape, i0 + rows);
      T m[kQueries], l[kQueries];
      std::fill_n(m, rows, kMinusInf<T>);
      std::fill_n(l, rows, T(0));
      std::fill_n(acc, rows * shape.value, T(0));
      for (int64_t j0 = 0; j0 < limit; j0 += kKeys) {
        int64_t cols = std::min(kKeys, limit - j0);
        product(p, cols, qs + i0 * strides.q.row, strides.q.row, ks + j0 * strides.k.row, strides.k.row, rows, cols,
                shape.key, Form::nt, shape.scale, 0);
        biasAndMask(p, shape, at, i0, j0, rows, cols, mask, bias);
        for (int64_t r = 0; r < rows; ++r) {
          T *row = p + r * cols;
          T top = math::max(m[r], detail::extreme_of<true>(row, cols));
          T shift = top == kMinusInf<T> ? T(0) : top;
          for (int64_t c = 0; c < cols; ++c)
            row[c] = math::exp(row[c] - shift);
          T kept = math::exp(m[r] - shift);
          l[r] = l[r] * kept + static_cast<T>(detail::sum_of(row, cols));
          m[r] = top;
          if (j0 > 0)
            for (int64_t c = 0; c < shape.value; ++c)
              acc[r * shape.value + c] *= kept;
        }
        product(acc, shape.value, p, cols, vs + j0 * strides.v.row, strides.v.row, rows, shape.value, cols, Form::nn, 1,
                j0 > 0);
      }
      for (int64_t r = 0; r < rows; ++r) {
        T factor = l[r] == T(0) ? T(0) : T(1) / l[r];
        T *o = os + (i0 + r) * strides.out.row;
        for (int64_t c = 0; c < shape.value; ++c)
          o[c] = acc[r * shape.value + c] * factor;
        lse[at.row(shape) + i0 + r] = m[r] == kMinusInf<T> ? m[r] : m[r] + math::log(l[r]);
      }
    }
  });
}

template <typename T>
void attention_grad(T *dq, T *dk, T *dv, T *dbias, const T *dout, const T *out, const T *lse, const T *q, const T *k,
                    const T *v, const AttentionShape &shape, const AttentionStrides &strides,
                    const AttentionStrides &grads, const uint8_t *mask, const T *bias) {
  auto clear = [&](T *x, const HeadStrides &s, int64_t rows, int64_t width) {
    int64_t steps[5] = {s.batch, s.group, s.head, s.row, 1};
    int64_t sizes[5] = {shape.batch, shape.group, shape.head, rows, width};
    fill_strided(x, steps, sizes, 5, T(0));
  };
  clear(dq, grads.q, shape.seq, shape.key);
  clear(dk, grads.k, shape.past, shape.key);
  clear(dv, grads.v, shape.past, shape.value);
  if (dbias) {
    int64_t steps[5] = {shape.bias.batch, shape.bias.group, shape.bias.head, shape.bias.seq, shape.bias.past};
    int64_t sizes[5] = {shape.batch, shape.group, shape.head, shape.seq, shape.past};
    fill_strided(dbias, steps, sizes, 5, T(0));
  }
  Workspace<T> &w = workspace<T>();
  T *p = atLeast(w.scores, kQueries * kKeys), *ds = atLeast(w.other, kQueries * kKeys);
  T *dots = atLeast(w.rows, shape.seq); // D
  overSlices(shape, [&](Slice at) {
    const T *qs = q + at.in(strides.q), *ks = k + at.in(strides.k), *vs = v + at.in(strides.v);
    const T *os = out + at.in(strides.out), *dos = dout + at.in(grads.out), *ls = lse + at.row(shape);
    T *dqs = dq + at.in(grads.q), *dks = dk + at.in(grads.k), *dvs = dv + at.in(grads.v);
    for (int64_t i = 0; i < shape.seq; ++i) {
      const T *o = os + i * strides.out.row, *d = dos + i * grads.out.row;
      dots[i] = static_cast<T>(
          detail::sum_of_vectors<T>(shape.value, [=](auto at, int64_t c) { return at.load(o + c) * at.load(d + c); }));
    }
    for (int64_t i0 = 0; i0 < shape.seq; i0 += kQueries) {
      int64_t rows = std::min(kQueries, shape.seq - i0), limit = keysSeen(shape, i0 + rows);
      const T *qi = qs + i0 * strides.q.row, *di = dos + i0 * grads.out.row;
      for (int64_t j0 = 0; j0 < limit; j0 += kKeys) {
        int64_t cols = std::min(kKeys, limit - j0);
        const T *kj = ks + j0 * strides.k.row, *vj = vs + j0 * strides.v.row;
        product(p, cols, qi, strides.q.row, kj, strides.k.row, rows, cols, shape.key, Form::nt, shape.scale, 0);
        biasAndMask(p, shape, at, i0, j0, rows, cols, mask, bias);
        product(ds, cols, di, grads.out.row, vj, strides.v.row, rows, cols, shape.value, Form::nt, 1, 0);
        for (int64_t r = 0; r < rows; ++r) {
          T *pr = p + r * cols, *dr = ds + r * cols;
          T dot = dots[i0 + r], shift = ls[i0 + r] == kMinusInf<T> ? T(0) : ls[i0 + r];
          for (int64_t c = 0; c < cols; ++c) {
            T e = math::exp(pr[c] - shift);
            pr[c] = e;
            dr[c] = e * (dr[c] - dot);
          }
        }
        product(dvs + j0 * grads.v.row, grads.v.row, p, cols, di, grads.out.row, cols, shape.value, rows, Form::tn, 1,
                1);
        product(dqs + i0 * grads.q.row, grads.q.row, ds, cols, kj, strides.k.row, rows, shape.key, cols, Form::nn,
                shape.scale, 1);
        product(dks + j0 * grads.k.row, grads.k.row, ds, cols, qi, strides.q.row, cols, shape.key, rows, Form::tn,
                shape.scale, 1);
        if (dbias)
          add_strided(dbias + at.in(shape.bias) + i0 * shape.bias.seq + j0 * shape.bias.past,
                      {shape.bias.seq, shape.bias.past}, ds, {cols, 1}, {rows, cols});
      }
    }
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
