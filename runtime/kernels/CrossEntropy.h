// Cross-entropy of logits x: (rows, vocab) with labels: (rows), or with a distribution target: (rows, vocab). Types:
// float, double.  loss = log sum exp x - x[label],  or  sum target * (log sum exp x - x).
#pragma once
#include <cstdint>

namespace echelon::runtime {

/// loss, shift, log_sum: (rows); log sum exp x = shift + log_sum, the shift near the maximum. Both are kept, apart, for
/// the derivative, which is a loop nest: (exp(x - shift - log_sum) - onehot(label)) * d.
template <typename T>
void cross_entropy(T *loss, T *shift, T *log_sum, const T *x, const int32_t *labels, int64_t rows, int64_t vocab);

/// loss, shift, log_sum, mass: (rows); mass = sum target (1 for a true distribution).
template <typename T>
void cross_entropy_target(T *loss, T *shift, T *log_sum, T *mass, const T *x, const T *target, int64_t rows,
                          int64_t vocab);

// Over a split vocabulary, this rank's columns being [offset, offset + vocab): shift = reduce_max(x, rows, vocab, 1),
// maximum over ranks; local; sum over ranks of (sum, picked), or (sum, picked, mass), in one message; finish.

/// sum: (rows) = sum exp(x - shift); picked: (rows) = x[label] - shift if the label is here, else 0.
template <typename T>
void cross_entropy_local(T *sum, T *picked, const T *x, const T *shift, const int32_t *labels, int64_t rows,
                         int64_t vocab, int32_t offset);
/// log_sum = log sum; loss = log_sum - picked; all (rows).
template <typename T> void cross_entropy_finish(T *loss, T *log_sum, const T *sum, const T *picked, int64_t rows);
/// sum as above; picked = sum target * (x - shift); mass = sum target.
template <typename T>
void cross_entropy_target_local(T *sum, T *picked, T *mass, const T *x, const T *shift, const T *target, int64_t rows,
                                int64_t vocab);
/// log_sum = log sum; loss = mass * log_sum - picked.
template <typename T>
void cross_entropy_target_finish(T *loss, T *log_sum, const T *sum, const T *picked, const T *mass, int64_t rows);

namespace reference {
template <typename T> void cross_entropy(T *loss, const T *x, const int32_t *labels, int64_t rows, int64_t vocab);
template <typename T> void cross_entropy_target(T *loss, const T *x, const T *target, int64_t rows, int64_t vocab);
} // namespace reference
} // namespace echelon::runtime
