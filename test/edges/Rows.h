// Cases that take each row of their inputs by itself.
#pragma once
#include "test/edges/Case.h"

namespace echelon::edges {

/// One row of a case's inputs.
struct Row {
  std::map<std::string, Reals> real;
  std::map<std::string, std::vector<double>> other;
  Values *all;
  int64_t at;
};

/// A reference that computes each row by itself.
inline std::function<Reals(Values &)> rowwise(std::function<Reals(Row &)> f) {
  return [f](Values &v) {
    Reals y;
    for (int64_t r = 0; r < v.rows; ++r) {
      Row row{{}, {}, &v, r};
      for (auto &[name, x] : v.reals) {
        const int64_t n = int64_t(x.size()) / v.rows;
        row.real[name].assign(x.begin() + r * n, x.begin() + (r + 1) * n);
      }
      for (auto &[name, x] : v.others) {
        const int64_t n = int64_t(x.size()) / v.rows;
        row.other[name].assign(x.begin() + r * n, x.begin() + (r + 1) * n);
      }
      for (Real each : f(row))
        y.push_back(each);
    }
    return y;
  };
}

/// Masks of n: all true, all false, one true, some.
inline std::vector<double> edgeMasks(int64_t rows, int64_t n) {
  std::vector<double> some = integers(rows * n, 2, 77), values;
  for (int64_t r = 0; r < rows; ++r)
    for (int64_t i = 0; i < n; ++i)
      values.push_back(r % 5 == 0 ? 1 : r % 5 == 1 ? 0 : r % 5 == 2 ? i == r % n : some[r * n + i]);
  return values;
}
inline std::vector<bool> maskOf(const std::vector<double> &values) {
  return std::vector<bool>(values.begin(), values.end());
}
/// Those that a mask leaves.
inline Reals left(const Reals &x, const std::vector<double> &mask) {
  Reals y;
  for (size_t i = 0; i < x.size(); ++i)
    if (mask[i])
      y.push_back(x[i]);
  return y;
}

} // namespace echelon::edges
