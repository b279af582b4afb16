// What the convolutions of one thread share: scratch memory, and the cache lines of what is read next.
#pragma once
#include <algorithm>
#include <cstdint>
#include <memory>
#include <new>
#include <vector>

namespace echelon::runtime::detail {

/// Scratch memory of the caller, or own memory where that is too little. In whole cache lines, if the caller's is.
template <typename T> class Memory {
  static constexpr int64_t kLine = 64 / sizeof(T);
  struct Free {
    void operator()(T *p) const { ::operator delete[](p, std::align_val_t(64)); }
  };
  T *place;
  int64_t left;
  std::vector<std::unique_ptr<T[], Free>> own;

public:
  Memory(T *scratch, int64_t count) : place(scratch), left(count) {}
  T *take(int64_t count) {
    count = (count + kLine - 1) / kLine * kLine;
    if (count > left)
      return own.emplace_back(static_cast<T *>(::operator new[](count * sizeof(T), std::align_val_t(64)))).get();
    T *start = place;
    place += count, left -= count;
    return start;
  }
  T *zeros(int64_t count) {
    T *start = take(count);
    std::fill_n(start, count, T(0));
    return start;
  }
};

/// Asks for the cache lines of `rows` rows, `step` apart, of `length` elements each, some at a time, for the second
/// cache.
template <typename T> class Ahead {
  static constexpr int64_t kLine = 64 / sizeof(T);
  const T *row;
  int64_t rows, step, length, next = 0;

public:
  Ahead(const T *at, int64_t rows, int64_t step, int64_t length) : row(at), rows(rows), step(step), length(length) {}
  int64_t lines() const { return rows * ((length + kLine - 1) / kLine); }
  void some(int64_t count) {
    for (; count > 0 && rows > 0; --count) {
      __builtin_prefetch(row + next, 0, 2);
      next += kLine;
      if (next >= length)
        row += step, next = 0, --rows;
    }
  }
};

} // namespace echelon::runtime::detail
