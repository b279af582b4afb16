// Which of several things to keep where there is no room for all of them.
#pragma once
#include <cstddef>
#include <cstdint>
#include <vector>

namespace echelon::planner {

struct Item {
  int64_t bytes = 0; ///< that it takes; at least 0
  double value = 0;  ///< of keeping it; at least 0
};

/// Places of those that are worth most together within so many bytes, ascending. Bytes are counted in 4,096ths of the
/// room, rounded up: all of them do fit, and what is lost to rounding is less than that for each.
std::vector<size_t> worthMost(const std::vector<Item> &items, int64_t room);

} // namespace echelon::planner
