// What a step's health is judged by: the squared norm, in double. It is not finite where an element is not, as squares
// of floats never overflow there. Types: float, double, bf16, fp16.
#pragma once
#include "runtime/cuda/Device.h"

namespace echelon::cuda {

/// Numbers of scratch that sums of squares need.
constexpr int64_t kSquaresScratch = 1024;

/// sum[0] = sum of x[i]^2, in an order that depends on n alone.
template <typename T> void sum_of_squares(Stream stream, double *sum, const T *x, int64_t n, double *scratch);
/// sum[0] += weight * sum of x[i]^2: one tensor's share of a norm over many.
template <typename T>
void add_squares(Stream stream, double *sum, const T *x, int64_t n, double weight, double *scratch);

} // namespace echelon::cuda
