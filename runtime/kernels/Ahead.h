// Asking for memory before it is read.
#pragma once
#include <cstdint>

namespace echelon::runtime::detail {

/// Asks for the cache lines of a matrix for the L2 cache, a share of them at a time.
template <typename T> class Ahead {
public:
  Ahead() = default;
  /// `rows` rows or columns, `step` apart, that hold `length` elements each, in `turns` shares; 1 or more turns.
  Ahead(const T *at, int64_t rows, int64_t step, int64_t length, int64_t turns)
      : row(at), rows(rows), step(step), length(length),
        share((rows * ((length + kLine - 1) / kLine) - 1) / turns + 1) {}
  void some() {
    for (int64_t asked = 0; asked < share && rows; ++asked) {
      __builtin_prefetch(row + next, 0, 2);
      next += kLine;
      if (next >= length)
        row += step, next = 0, --rows;
    }
  }

private:
  static constexpr int64_t kLine = 64 / sizeof(T);
  const T *row = nullptr;
  int64_t rows = 0, step = 0, length = 0, share = 0, next = 0;
};

} // namespace echelon::runtime::detail
