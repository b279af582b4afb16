// Repeats in a row of places, the stages of a pipeline: how their iterations are dealt out.
#pragma once
#include <algorithm>
#include <cstdint>
#include <vector>

namespace echelon::pipeline {

/// Of each repeat how many of its `counts` iterations are at each place, where these have room for so many in all: they
/// are dealt out in order. (2, 4) to places of (1, 3, 2): (1, 1, 0) and (0, 2, 2). None of a repeat that is alone,
/// where all places have equally many.
inline std::vector<std::vector<int64_t>> dealtOut(const std::vector<int64_t> &counts, std::vector<int64_t> room) {
  std::vector<std::vector<int64_t>> all;
  size_t place = 0;
  for (int64_t left : counts) {
    std::vector<int64_t> sizes(room.size(), 0);
    while (left > 0) {
      while (room[place] == 0)
        ++place;
      const int64_t n = std::min(left, room[place]);
      sizes[place] += n;
      room[place] -= n;
      left -= n;
    }
    if (counts.size() == 1 && std::all_of(sizes.begin(), sizes.end(), [&](int64_t size) { return size == sizes[0]; }))
      sizes.clear();
    all.push_back(std::move(sizes));
  }
  return all;
}

} // namespace echelon::pipeline
