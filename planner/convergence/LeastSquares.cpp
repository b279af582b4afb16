#include "planner/convergence/LeastSquares.h"

#include <algorithm>
#include <cmath>

namespace echelon::planner {

void Equations::add(std::vector<double> row, double value, double weight) {
  for (double &factor : row)
    factor *= weight;
  a.push_back(std::move(row));
  b.push_back(value * weight);
}

namespace {

/// a^T a and a^T b, columns scaled to length 1, with a trace of ridge, so that columns which depend on each other do
/// not break the elimination.
struct Normal {
  std::vector<std::vector<double>> matrix;
  std::vector<double> right, length;

  explicit Normal(const Equations &of) {
    constexpr double kRidge = 1e-10;
    const size_t n = of.unknowns;
    matrix.assign(n, std::vector<double>(n, 0));
    right.assign(n, 0);
    length.assign(n, 1);
    for (size_t row = 0; row < of.a.size(); ++row)
      for (size_t i = 0; i < n; ++i) {
        right[i] += of.a[row][i] * of.b[row];
        for (size_t j = 0; j < n; ++j)
          matrix[i][j] += of.a[row][i] * of.a[row][j];
      }
    for (size_t i = 0; i < n; ++i)
      if (matrix[i][i] > 0)
        length[i] = std::sqrt(matrix[i][i]);
    for (size_t i = 0; i < n; ++i) {
      right[i] /= length[i];
      for (size_t j = 0; j < n; ++j)
        matrix[i][j] /= length[i] * length[j];
      matrix[i][i] += kRidge;
    }
  }

  /// Of the unknowns that are free, the others being 0, by Gauss's elimination.
  std::vector<double> solve(const std::vector<size_t> &free) const {
    const size_t n = free.size();
    std::vector<std::vector<double>> m(n, std::vector<double>(n + 1));
    for (size_t i = 0; i < n; ++i) {
      for (size_t j = 0; j < n; ++j)
        m[i][j] = matrix[free[i]][free[j]];
      m[i][n] = right[free[i]];
    }
    for (size_t k = 0; k < n; ++k) {
      size_t most = k;
      for (size_t i = k + 1; i < n; ++i)
        if (std::abs(m[i][k]) > std::abs(m[most][k]))
          most = i;
      std::swap(m[k], m[most]);
      for (size_t i = k + 1; i < n; ++i) {
        const double factor = m[i][k] / m[k][k];
        for (size_t j = k; j <= n; ++j)
          m[i][j] -= factor * m[k][j];
      }
    }
    std::vector<double> x(n);
    for (size_t k = n; k-- > 0;) {
      x[k] = m[k][n];
      for (size_t j = k + 1; j < n; ++j)
        x[k] -= m[k][j] * x[j];
      x[k] /= m[k][k];
    }
    return x;
  }

  /// Half of how fast the sum of squares falls with an unknown.
  double fall(size_t i, const std::vector<double> &x) const {
    double sum = right[i];
    for (size_t j = 0; j < x.size(); ++j)
      sum -= matrix[i][j] * x[j];
    return sum;
  }
};

/// Goes from x towards what the free unknowns would be, as far as none becomes negative; one that comes to 0 is free no
/// more. Until all can go the whole way.
void settle(const Normal &normal, std::vector<size_t> &free, std::vector<double> &x) {
  while (!free.empty()) {
    const std::vector<double> wanted = normal.solve(free);
    double part = 1;
    size_t limit = free.size(); // the unknown that comes to 0 first
    for (size_t i = 0; i < free.size(); ++i)
      if (wanted[i] <= 0 && x[free[i]] / (x[free[i]] - wanted[i]) < part)
        part = x[free[limit = i]] / (x[free[i]] - wanted[i]);
    for (size_t i = 0; i < free.size(); ++i)
      x[free[i]] += part * (wanted[i] - x[free[i]]);
    if (limit == free.size())
      return;
    x[free[limit]] = 0;
    const auto isDone = [&](size_t i) {
      if (x[i] > 1e-15)
        return false;
      x[i] = 0;
      return true;
    };
    free.erase(std::remove_if(free.begin(), free.end(), isDone), free.end());
  }
}

} // namespace

std::vector<double> leastSquaresAboveZero(const Equations &equations) {
  const Normal normal(equations);
  const size_t n = equations.unknowns;
  std::vector<double> x(n, 0);
  std::vector<size_t> free;
  double scale = 0;
  for (double right : normal.right)
    scale = std::max(scale, std::abs(right));
  for (size_t round = 0; round < 3 * n; ++round) {
    size_t best = n;
    double fastest = 1e-11 * scale;
    for (size_t i = 0; i < n; ++i)
      if (std::find(free.begin(), free.end(), i) == free.end() && normal.fall(i, x) > fastest)
        fastest = normal.fall(best = i, x);
    if (best == n)
      break;
    free.push_back(best);
    settle(normal, free, x);
  }
  for (size_t i = 0; i < n; ++i)
    x[i] /= normal.length[i];
  return x;
}

} // namespace echelon::planner
