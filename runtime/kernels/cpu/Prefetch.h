// Asking for memory before it is read.
#pragma once
#include <algorithm>
#include <cstdint>

namespace echelon::runtime::detail {

/// Asks for the cache lines of `rows` rows (or columns), `step` apart, of `length` elements each, some at a time, for
/// the L2 cache.
template <typename T> class Prefetch {
public:
  static constexpr int64_t kLine = 64 / sizeof(T);

  Prefetch() = default;
  Prefetch(const T *at, int64_t rows, int64_t step, int64_t length) : row(at), rows(rows), step(step), length(length) {}
  /// In `turns` equal shares.
  Prefetch(const T *at, int64_t rows, int64_t step, int64_t length, int64_t turns) : Prefetch(at, rows, step, length) {
    share = (lines() - 1) / std::max<int64_t>(1, turns) + 1;
  }
  /// How many are left.
  int64_t lines() const { return rows * ((length + kLine - 1) / kLine); }
  void some(int64_t count) {
    for (; count > 0 && rows > 0; --count) {
      __builtin_prefetch(row + next, 0, 2);
      next += kLine;
      if (next >= length)
        row += step, next = 0, --rows;
    }
  }
  /// The next share.
  void some() { some(share); }

private:
  const T *row = nullptr;
  int64_t rows = 0, step = 0, length = 0, share = 0, next = 0;
};

} // namespace echelon::runtime::detail
