// softmax and logsumexp of x: (outer, n, inner) over its middle axis. Types: float, double. A slice that is -inf
// throughout (masked) has softmax 0, logsumexp -inf. softmax may work in place (y = x). Derivatives are loop nests of
// these results, and log_softmax is one of logsumexp's terms: they have no kernels.
#pragma once
#include <cstdint>

namespace echelon::runtime {

/// y = exp(x - max) / sum exp(x - max). x, y: (outer, n, inner).
template <typename T> void softmax(T *y, const T *x, int64_t outer, int64_t n, int64_t inner);
/// lse: (outer, inner) = log sum exp x = shift + log_sum, both (outer, inner), the shift near the maximum. Of a masked
/// slice shift is 0 and log_sum inf, so that exp(x - shift - log_sum) is its softmax.
template <typename T> void logsumexp(T *lse, T *shift, T *log_sum, const T *x, int64_t outer, int64_t n, int64_t inner);

// Over a split axis: m = reduce_max(x), maximum over ranks; s = local_sum_exp, sum over ranks; finish.

/// s: (outer, inner) = sum exp(x - m); m: (outer, inner).
template <typename T> void local_sum_exp(T *s, const T *x, const T *m, int64_t outer, int64_t n, int64_t inner);
/// y = exp(x - m) / s.
template <typename T>
void softmax_finish(T *y, const T *x, const T *m, const T *s, int64_t outer, int64_t n, int64_t inner);
/// As logsumexp, from the maximum m and the sum s; all (count).
template <typename T> void logsumexp_finish(T *lse, T *shift, T *log_sum, const T *m, const T *s, int64_t count);

namespace reference {
template <typename T> void softmax(T *y, const T *x, int64_t outer, int64_t n, int64_t inner);
template <typename T> void logsumexp(T *lse, const T *x, int64_t outer, int64_t n, int64_t inner);
} // namespace reference
} // namespace echelon::runtime
