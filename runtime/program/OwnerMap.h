// Which positions of an axis each coordinate of a mesh axis holds: the one rule that the compiler and programs ask.
//
//   map        coordinate r of n holds, in the order in which it stores them
//   blocks     block r of n
//   zigzag     chunks r and 2n - 1 - r of 2n, so that each has an early and a late one
//   cyclic v   chunks r, r + n, ... of v * n
//
// Positions that a coordinate holds ascend in all of them. Mesh axes nest: a map divides the positions that those
// before it left, in the order in which these are stored.
#pragma once

#include <algorithm>
#include <cstdint>
#include <string>
#include <vector>

namespace echelon::runtime {

/// Positions [begin, end).
struct Interval {
  int64_t begin, end;
  bool operator==(const Interval &other) const { return begin == other.begin && end == other.end; }
};

struct OwnerMap {
  int64_t chunks = 1;    ///< that each coordinate holds
  bool isZigzag = false; ///< every second one is counted from the end

  static OwnerMap zigzag() { return {2, true}; }
  static OwnerMap cyclic(int64_t chunks) { return {chunks, false}; }
  bool isBlocks() const { return chunks == 1; }
  bool operator==(const OwnerMap &other) const { return chunks == other.chunks && isZigzag == other.isZigzag; }
  bool operator!=(const OwnerMap &other) const { return !(*this == other); }

  /// Which of the chunks * n chunks is the k-th that coordinate r of n holds: first + step * r.
  struct Chunk {
    int64_t first, step;
  };
  Chunk chunk(int64_t k, int64_t n) const {
    return isZigzag && k % 2 == 1 ? Chunk{(k + 1) * n - 1, -1} : Chunk{k * n, 1};
  }
};

/// How one mesh axis divides what the slower ones left of an axis.
struct Divider {
  int mesh; ///< its index in the mesh
  int64_t size;
  OwnerMap map;
};

namespace detail {
/// Adds positions [begin, end) of those held, in stored order.
inline void take(const std::vector<Interval> &held, int64_t begin, int64_t end, std::vector<Interval> &part) {
  for (const Interval &run : held) {
    const int64_t size = run.end - run.begin, from = std::max<int64_t>(begin, 0), to = std::min(end, size);
    if (from < to && !part.empty() && part.back().end == run.begin + from)
      part.back().end = run.begin + to;
    else if (from < to)
      part.push_back({run.begin + from, run.begin + to});
    begin -= size;
    end -= size;
  }
}
} // namespace detail

/// The runs of positions, in stored order, that these coordinates hold of an axis of `size` positions in storage over
/// all ranks: padding is counted among them. `dividers`: the slowest first.
template <class Dividers, class Coordinates>
std::vector<Interval> runsOf(int64_t size, const Dividers &dividers, const Coordinates &coordinates) {
  std::vector<Interval> held{{0, size}};
  for (const Divider &divider : dividers) {
    std::vector<Interval> part;
    size /= divider.size * divider.map.chunks;
    for (int64_t k = 0; k < divider.map.chunks; ++k) {
      const OwnerMap::Chunk chunk = divider.map.chunk(k, divider.size);
      const int64_t at = chunk.first + chunk.step * coordinates[divider.mesh];
      detail::take(held, at * size, (at + 1) * size, part);
    }
    held = part;
    size *= divider.map.chunks;
  }
  return held;
}

} // namespace echelon::runtime
