// Sums of many rows, for loops that add row after row to floats in place.
#pragma once
#include <algorithm>
#include <cstdint>
#include <vector>

namespace echelon::runtime {

/// Keeps a long sum's digits: what the loop has added to `place` goes into totals in double every few rows, so that the
/// error does not grow with their number.
///
///     LongSum total(place, n);
///     for (…) {
///       place[j] += …;     // of each j < n
///       total.row();
///     }
///     total.finish();
class LongSum {
public:
  enum Start { FromZero, FromPlace };

  /// place: n floats, set to 0; `FromPlace`, what they were is part of the sums. Each row adds so many values to a
  /// place.
  LongSum(float *place, int64_t n, int64_t values = 1, Start start = FromZero)
      : sums(place), totals(size_t(n)), block(std::max<int64_t>(1, kBlock / values)) {
    if (start == FromPlace)
      std::copy_n(place, n, totals.begin());
    std::fill_n(place, n, 0.0f);
  }
  /// A row has been added.
  void row() {
    if (++rows == block)
      take();
  }
  /// place: the sums.
  void finish() {
    take();
    for (size_t j = 0; j < totals.size(); ++j)
      sums[j] = static_cast<float>(totals[j]);
  }

private:
  static constexpr int64_t kBlock = 32; // values; at 16, sums of 2048 rows take 5 to 10 % longer

  void take() {
    for (size_t j = 0; j < totals.size(); ++j) {
      totals[j] += static_cast<double>(sums[j]);
      sums[j] = 0;
    }
    rows = 0;
  }

  float *sums;
  std::vector<double> totals;
  int64_t block, rows = 0;
};

} // namespace echelon::runtime
