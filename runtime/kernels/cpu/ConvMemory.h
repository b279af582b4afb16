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

} // namespace echelon::runtime::detail
