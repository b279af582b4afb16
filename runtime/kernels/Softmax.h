// softmax, log_softmax and logsumexp of x: (outer, n, inner) over its middle axis, and their derivatives. Types: float,
// double. A slice that is -inf throughout (masked) has softmax 0, logsumexp -inf. All may work in place (y = x, dx =
// dy).
#pragma once
#include <cstdint>

namespace echelon::runtime {

/// y = exp(x - max) / sum exp(x - max). x, y: (outer, n, inner).
template <typename T> void softmax(T *y, const T *x, int64_t outer, int64_t n, int64_t inner);
/// dx = y * (dy - sum dy * y). All (outer, n, inner).
template <typename T> void softmax_grad(T *dx, const T *dy, const T *y, int64_t outer, int64_t n, int64_t inner);
/// y = x - logsumexp x. x, y: (outer, n, inner).
template <typename T> void log_softmax(T *y, const T *x, int64_t outer, int64_t n, int64_t inner);
/// dx = dy - exp(y) * sum dy. All (outer, n, inner).
template <typename T> void log_softmax_grad(T *dx, const T *dy, const T *y, int64_t outer, int64_t n, int64_t inner);
/// lse: (outer, inner) = log sum exp x.
template <typename T> void logsumexp(T *lse, const T *x, int64_t outer, int64_t n, int64_t inner);
/// dx: (outer, n, inner) = exp(x - lse) * d; lse, d: (outer, inner).
template <typename T>
void logsumexp_grad(T *dx, const T *d, const T *x, const T *lse, int64_t outer, int64_t n, int64_t inner);

// Over a split axis: m = reduce_max(x), maximum over ranks; s = local_sum_exp, sum over ranks; finish.
// Backward: softmax t = local_sum_product(dy, y), log_softmax t = reduce_sum(dy), sum over ranks; finish.

/// s: (outer, inner) = sum exp(x - m); m: (outer, inner).
template <typename T> void local_sum_exp(T *s, const T *x, const T *m, int64_t outer, int64_t n, int64_t inner);
/// y = exp(x - m) / s.
template <typename T>
void softmax_finish(T *y, const T *x, const T *m, const T *s, int64_t outer, int64_t n, int64_t inner);
/// y = x - m - log s.
template <typename T>
void log_softmax_finish(T *y, const T *x, const T *m, const T *s, int64_t outer, int64_t n, int64_t inner);
/// lse = m + log s; all (count).
template <typename T> void logsumexp_finish(T *lse, const T *m, const T *s, int64_t count);
/// t: (outer, inner) = sum a * b.
template <typename T> void local_sum_product(T *t, const T *a, const T *b, int64_t outer, int64_t n, int64_t inner);
/// dx = y * (dy - t).
template <typename T>
void softmax_grad_finish(T *dx, const T *dy, const T *y, const T *t, int64_t outer, int64_t n, int64_t inner);
/// dx = dy - exp(y) * t.
template <typename T>
void log_softmax_grad_finish(T *dx, const T *dy, const T *y, const T *t, int64_t outer, int64_t n, int64_t inner);

namespace reference {
template <typename T> void softmax(T *y, const T *x, int64_t outer, int64_t n, int64_t inner);
template <typename T> void logsumexp(T *lse, const T *x, int64_t outer, int64_t n, int64_t inner);
} // namespace reference
} // namespace echelon::runtime
