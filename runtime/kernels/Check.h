// What a step's health is judged by: the squared norm, and whether all is finite. Types: float, double.
#pragma once
#include "runtime/transport/Element.h"

#include <cstddef>
#include <cstdint>

namespace echelon::runtime {

/// sum of x[i]^2, in double, in a fixed order.
template <typename T> double sum_of_squares(const T *x, int64_t n);
/// sum[0] += weight * sum of x[i]^2: one tensor's share of a norm over many.
/// Returns the sum.
template <typename T> inline const double *add_squares(double *sum, const T *x, int64_t n, double weight = 1) {
  sum[0] += weight * sum_of_squares(x, n);
  return sum;
}

/// The first i at which x[i] is infinite or NaN; -1 where none is.
template <typename T> int64_t check_finite(const T *x, int64_t n);
/// The same of n elements of any type; whole numbers are finite.
int64_t check_finite(ElementType type, const std::byte *data, int64_t n);

} // namespace echelon::runtime
