// What a step's health is judged by: the squared norm, in double. It is not finite where an element is not, as squares
// of floats never overflow there. Types: float, double, bf16, fp16.
#pragma once
#include "runtime/cuda/Tensors.h"

namespace echelon::cuda {

/// What a step finds of its own health. Kernels of the update do nothing once it is broken.
struct Health {
  int32_t isBroken;    // a loss or the norm is not finite
  int32_t firstBroken; // one past the place of the first gradient that is not finite, in the order of watch(); 0: none
};

/// Numbers of scratch that sums of squares need.
constexpr int64_t kSquaresScratch = 1024;

/// sum[0] = sum of x[i]^2, in an order that depends on n alone.
template <typename T> void sum_of_squares(Stream stream, double *sum, const T *x, int64_t n, double *scratch);
/// sum[0] += weight * sum of x[i]^2: one tensor's share of a norm over many.
template <typename T>
void add_squares(Stream stream, double *sum, const T *x, int64_t n, double weight, double *scratch);

/// x (n) of a norm over many tensors, and how often it counts.
template <typename T> struct Squared {
  const T *x;
  int64_t n;
  double weight;
};
/// The same for each of them, in their order, in two launches. The first after which the sum is not finite becomes
/// health's first broken one, if there was none: its place is `place` for the first of them.
template <typename T>
void add_squares(Stream stream, double *sum, const std::vector<Squared<T>> &all, Health *health, int32_t place,
                 double *scratch);
/// Numbers of scratch for that.
template <typename T> int64_t squares_scratch(const std::vector<Squared<T>> &all);

} // namespace echelon::cuda
