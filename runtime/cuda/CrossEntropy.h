// Cross-entropy of logits x: (rows, vocab), as runtime/kernels/CrossEntropy.h. Types: float, double (cross_entropy and
// cross_entropy_target: bf16 and fp16, too, whose losses and sums are floats).
//   loss = log sum exp x - x[label],  or  sum target * (log sum exp x - x)
#pragma once
#include "runtime/cuda/Device.h"

namespace echelon::cuda {

/// loss, shift, log_sum: (rows); log sum exp x = shift + log_sum, the shift being the maximum. Rows of x are ld apart.
template <typename T>
void cross_entropy(Stream stream, Wide<T> *loss, Wide<T> *shift, Wide<T> *log_sum, const T *x, const int32_t *labels,
                   int64_t rows, int64_t vocab, int64_t ld);
template <typename T>
void cross_entropy(Stream stream, Wide<T> *loss, Wide<T> *shift, Wide<T> *log_sum, const T *x, const int32_t *labels,
                   int64_t rows, int64_t vocab) {
  cross_entropy(stream, loss, shift, log_sum, x, labels, rows, vocab, vocab);
}

/// loss, shift, log_sum, mass: (rows); mass = sum target (1 for a true distribution).
template <typename T>
void cross_entropy_target(Stream stream, Wide<T> *loss, Wide<T> *shift, Wide<T> *log_sum, Wide<T> *mass, const T *x,
                          const T *target, int64_t rows, int64_t vocab);

// Over a split vocabulary, this rank's columns being [offset, offset + vocab): shift = reduce_max(x, rows, vocab, 1),
// maximum over ranks; local; sum over ranks of (sum, picked), or (sum, picked, mass), in one message; finish.

/// sum: (rows) = sum exp(x - shift); picked: (rows) = x[label] - shift if the label is here, else 0.
template <typename T>
void cross_entropy_local(Stream stream, T *sum, T *picked, const T *x, const T *shift, const int32_t *labels,
                         int64_t rows, int64_t vocab, int32_t offset);
/// log_sum = log sum; loss = log_sum - picked; all (rows).
template <typename T>
void cross_entropy_finish(Stream stream, T *loss, T *log_sum, const T *sum, const T *picked, int64_t rows);
/// sum as above; picked = sum target * (x - shift); mass = sum target.
template <typename T>
void cross_entropy_target_local(Stream stream, T *sum, T *picked, T *mass, const T *x, const T *shift, const T *target,
                                int64_t rows, int64_t vocab);
/// log_sum = log sum; loss = mass * log_sum - picked.
template <typename T>
void cross_entropy_target_finish(Stream stream, T *loss, T *log_sum, const T *sum, const T *picked, const T *mass,
                                 int64_t rows);

} // namespace echelon::cuda
