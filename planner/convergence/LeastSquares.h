// Least squares whose unknowns must not be negative.
//
// C. L. Lawson, R. J. Hanson, "Solving Least Squares Problems", 1974, chapter 23: unknowns become free one after the
// other, that first by which the sum of squares falls fastest; one that would become negative is 0 again.
#pragma once
#include <cstddef>
#include <vector>

namespace echelon::planner {

/// Rows of a system a x = b.
struct Equations {
  explicit Equations(size_t count) : unknowns(count) {}

  size_t unknowns;
  std::vector<std::vector<double>> a; ///< a row each
  std::vector<double> b;

  void add(std::vector<double> row, double value, double weight = 1);
};

/// The x >= 0 of the least |a x - b|.
std::vector<double> leastSquaresAboveZero(const Equations &equations);

} // namespace echelon::planner
