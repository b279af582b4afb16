// softmax and logsumexp of x: (outer, n, inner) over its middle axis, as runtime/kernels/Softmax.h. Types: float,
// double (softmax, logsumexp: bf16 and fp16, too, whose maxima and sums are floats). softmax may work in place (y = x).
#pragma once
#include "runtime/cuda/Device.h"

namespace echelon::cuda {

/// y = exp(x - max) / sum exp(x - max). x, y: (outer, n, inner).
template <typename T> void softmax(Stream stream, T *y, const T *x, int64_t outer, int64_t n, int64_t inner);
/// lse: (outer, inner) = log sum exp x = shift + log_sum. Of a masked slice shift is 0 and log_sum inf.
template <typename T>
void logsumexp(Stream stream, Wide<T> *lse, Wide<T> *shift, Wide<T> *log_sum, const T *x, int64_t outer, int64_t n,
               int64_t inner);

// Over a split axis: m = reduce_max(x), maximum over ranks; s = local_sum_exp, sum over ranks; finish.

/// s: (outer, inner) = sum exp(x - m); m: (outer, inner).
template <typename T>
void local_sum_exp(Stream stream, T *s, const T *x, const T *m, int64_t outer, int64_t n, int64_t inner);
/// y = exp(x - m) / s.
template <typename T>
void softmax_finish(Stream stream, T *y, const T *x, const T *m, const T *s, int64_t outer, int64_t n, int64_t inner);
/// As logsumexp, from the maximum m and the sum s; all (count).
template <typename T>
void logsumexp_finish(Stream stream, T *lse, T *shift, T *log_sum, const T *m, const T *s, int64_t count);

} // namespace echelon::cuda
