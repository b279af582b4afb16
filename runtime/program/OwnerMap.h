// Which positions of an axis each coordinate of a mesh axis holds: the one rule that the compiler and programs ask.
//
//   map                  coordinate r of n holds, in the order in which it stores them
//   blocks               block r of n
//   blocks (7, 8, 8, 7)  the same, of blocks of these sizes
//   zigzag               chunks r and 2n - 1 - r of 2n, so that each has an early and a late one
//   cyclic v             chunks r, r + n, ... of v * n; with (...) these have v * n sizes, in the order of positions
//
// Positions that a coordinate holds ascend in all of them. Mesh axes nest: a map divides the positions that those
// before it left, in the order in which these are stored.
//
// Chunks of unequal sizes are all stored as the largest one, so that storage has one size. What is behind the positions
// of a smaller chunk is padding: it stands for positions past the last one, each once. Of blocks (1, 3, 2), positions
// 0 to 5, the ranks store 0 6 7, 1 2 3 and 4 5 8.
#pragma once

#include <algorithm>
#include <cstdint>
#include <numeric>
#include <string>
#include <utility>
#include <vector>

namespace echelon::runtime {

/// Positions [begin, end).
struct Interval {
  int64_t begin, end;
  bool operator==(const Interval &other) const { return begin == other.begin && end == other.end; }
};

struct OwnerMap {
  int64_t chunks = 1;              ///< that each coordinate holds
  bool isZigzag = false;           ///< every second one is counted from the end
  std::vector<int64_t> sizes = {}; ///< of all chunks, in the order of positions; none: they are equal

  static OwnerMap zigzag() { return {2, true}; }
  static OwnerMap cyclic(int64_t chunks) { return {chunks, false}; }
  static OwnerMap unequal(int64_t chunks, std::vector<int64_t> sizes) { return {chunks, false, std::move(sizes)}; }
  /// One block of equal size each.
  bool isBlocks() const { return chunks == 1 && isEqual(); }
  bool isEqual() const { return sizes.empty(); }
  bool operator==(const OwnerMap &other) const {
    return chunks == other.chunks && isZigzag == other.isZigzag && sizes == other.sizes;
  }
  bool operator!=(const OwnerMap &other) const { return !(*this == other); }

  /// Which of the chunks * n chunks is the k-th that coordinate r of n holds: first + step * r.
  struct Chunk {
    int64_t first, step;
  };
  Chunk chunk(int64_t k, int64_t n) const {
    return isZigzag && k % 2 == 1 ? Chunk{(k + 1) * n - 1, -1} : Chunk{k * n, 1};
  }

  /// Of unequal chunks: how many positions they have in all, how many the largest has, and those before a chunk.
  int64_t total() const { return before(int64_t(sizes.size())); }
  int64_t largest() const { return *std::max_element(sizes.begin(), sizes.end()); }
  int64_t before(int64_t chunk) const { return std::accumulate(sizes.begin(), sizes.begin() + chunk, int64_t(0)); }
  /// How many positions each of n coordinates stores, of `size` that the slower mesh axes leave.
  int64_t stored(int64_t size, int64_t n) const { return isEqual() ? (size + n - 1) / n : chunks * largest(); }
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
    const OwnerMap &map = divider.map;
    std::vector<Interval> part;
    size /= divider.size * map.chunks;
    for (int64_t k = 0; k < map.chunks; ++k) {
      const OwnerMap::Chunk chunk = map.chunk(k, divider.size);
      const int64_t at = chunk.first + chunk.step * coordinates[divider.mesh];
      if (map.isEqual()) {
        detail::take(held, at * size, (at + 1) * size, part);
        continue;
      }
      const int64_t begin = map.before(at), own = map.sizes[size_t(at)], padding = map.total() + at * size - begin;
      detail::take(held, begin, begin + own, part);
      detail::take(held, padding, padding + size - own, part);
    }
    held = part;
    size *= map.chunks;
  }
  return held;
}

} // namespace echelon::runtime
