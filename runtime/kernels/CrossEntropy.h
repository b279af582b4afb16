// Cross-entropy of logits x: (rows, vocab) with labels: (rows), or with a distribution target: (rows, vocab). Types:
// float, double.  loss = log sum exp x - x[label],  or  sum target * (log sum exp x - x).
#pragma once
#include <cstdint>

namespace echelon::runtime {

/// loss, lse: (rows). lse is kept for the derivative, which is a loop nest: (exp(x - lse) - onehot(label)) * d.
template <typename T>
void cross_entropy(T *loss, T *lse, const T *x, const int32_t *labels, int64_t rows, int64_t vocab);

/// loss, lse, mass: (rows); mass = sum target, kept for the derivative (1 for a true distribution).
template <typename T>
void cross_entropy_target(T *loss, T *lse, T *mass, const T *x, const T *target, int64_t rows, int64_t vocab);

// Over a split vocabulary, this rank's columns being [offset, offset + vocab): m = reduce_max(x, rows, vocab, 1),
// maximum over ranks; local; sum over ranks of (sum, picked), or (sum, picked, mass), in one message; finish.

/// sum: (rows) = sum exp(x - m); picked: (rows) = x[label] - m if the label is here, else 0.
template <typename T>
void cross_entropy_local(T *sum, T *picked, const T *x, const T *m, const int32_t *labels, int64_t rows, int64_t vocab,
                         int32_t offset);
/// loss = log sum - picked; lse = m + log sum; all (rows).
template <typename T>
void cross_entropy_finish(T *loss, T *lse, const T *m, const T *sum, const T *picked, int64_t rows);
/// sum as above; picked = sum target * (x - m); mass = sum target.
template <typename T>
void cross_entropy_target_local(T *sum, T *picked, T *mass, const T *x, const T *m, const T *target, int64_t rows,
                                int64_t vocab);
/// loss = mass * log sum - picked; lse = m + log sum.
template <typename T>
void cross_entropy_target_finish(T *loss, T *lse, const T *m, const T *sum, const T *picked, const T *mass,
                                 int64_t rows);

namespace reference {
template <typename T> void cross_entropy(T *loss, const T *x, const int32_t *labels, int64_t rows, int64_t vocab);
template <typename T> void cross_entropy_target(T *loss, const T *x, const T *target, int64_t rows, int64_t vocab);
} // namespace reference
} // namespace echelon::runtime
