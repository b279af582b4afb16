// How many iterations the stages of a pipeline have, so that the slowest is as fast as possible.
#pragma once
#include "runtime/program/OwnerMap.h"
#include <algorithm>
#include <vector>

namespace echelon::pipeline {

/// What an iteration costs, and what the first and the last stage do besides.
struct StageCosts {
  int64_t iteration = 0, first = 0, last = 0;
};

/// `count` iterations for `stages` with so many chunks each. There are as many iterations as chunks, or more.
inline runtime::OwnerMap balanced(const StageCosts &costs, int64_t count, int64_t stages, int64_t chunks) {
  std::vector<int64_t> sizes(size_t(stages * chunks), 1), load(size_t(stages), chunks * costs.iteration);
  load.front() += costs.first;
  load.back() += costs.last;
  for (int64_t left = count - stages * chunks; left > 0; --left) {
    int64_t stage = stages - 1;
    for (int64_t s = stage; s >= 0; --s)
      stage = load[size_t(s)] < load[size_t(stage)] ? s : stage;
    int64_t chunk = stage;
    for (int64_t c = stage; c < stages * chunks; c += stages)
      chunk = sizes[size_t(c)] < sizes[size_t(chunk)] ? c : chunk;
    ++sizes[size_t(chunk)];
    load[size_t(stage)] += costs.iteration;
  }
  const bool isEqual = std::all_of(sizes.begin(), sizes.end(), [&](int64_t size) { return size == sizes[0]; });
  return isEqual ? runtime::OwnerMap::cyclic(chunks) : runtime::OwnerMap::unequal(chunks, sizes);
}

} // namespace echelon::pipeline
