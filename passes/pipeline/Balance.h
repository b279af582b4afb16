// How many iterations the stages of a pipeline have, so that the slowest is as fast as possible.
#pragma once
#include "passes/pipeline/DealOut.h"
#include "runtime/program/OwnerMap.h"
#include <algorithm>
#include <vector>

namespace echelon::pipeline {

/// A repeat whose iterations stages divide: how many there are, what one costs, and what stands before the first.
struct RepeatCosts {
  int64_t count = 0, iteration = 0, before = 0;
};

/// Repeats in a row, and what stands behind the last one.
struct StageCosts {
  std::vector<RepeatCosts> repeats;
  int64_t behind = 0;
};

/// Of one repeat: one after the other iterations go to the stage that is fastest with it, there to its smallest chunk.
inline std::vector<int64_t> balancedOne(const StageCosts &costs, int64_t stages, int64_t chunks) {
  const RepeatCosts &repeat = costs.repeats.front();
  std::vector<int64_t> sizes(size_t(stages * chunks), 1), load(size_t(stages), chunks * repeat.iteration);
  load.front() += repeat.before;
  load.back() += costs.behind;
  for (int64_t left = repeat.count - stages * chunks; left > 0; --left) {
    int64_t stage = stages - 1;
    for (int64_t s = stage; s >= 0; --s)
      stage = load[size_t(s)] < load[size_t(stage)] ? s : stage;
    int64_t chunk = stage;
    for (int64_t c = stage; c < stages * chunks; c += stages)
      chunk = sizes[size_t(c)] < sizes[size_t(chunk)] ? c : chunk;
    ++sizes[size_t(chunk)];
    load[size_t(stage)] += repeat.iteration;
  }
  return sizes;
}

/// Of repeats in a row: so that the slowest of `places` chunks is as fast as possible; of equals later ones have more.
inline std::vector<int64_t> balancedRow(const StageCosts &costs, int64_t places) {
  std::vector<int64_t> upTo{0}; // what the first so many iterations cost, with what stands before them
  for (const RepeatCosts &repeat : costs.repeats)
    for (int64_t i = 0; i < repeat.count; ++i)
      upTo.push_back(upTo.back() + repeat.iteration + (i == 0 ? repeat.before : 0));
  upTo.back() += costs.behind;
  const auto all = int64_t(upTo.size()) - 1;
  std::vector<std::vector<int64_t>> slowest(size_t(places + 1), std::vector<int64_t>(upTo.size(), INT64_MAX)),
      begin = slowest; // of so many chunks with so many iterations; where the last of them begins
  slowest[0][0] = 0;
  for (int64_t c = 1; c <= places; ++c)
    for (int64_t end = c; end <= all; ++end)
      for (int64_t b = c - 1; b < end; ++b) {
        const int64_t before = slowest[size_t(c - 1)][size_t(b)];
        const int64_t with = std::max(before, upTo[size_t(end)] - upTo[size_t(b)]);
        if (before < INT64_MAX && with < slowest[size_t(c)][size_t(end)]) {
          slowest[size_t(c)][size_t(end)] = with;
          begin[size_t(c)][size_t(end)] = b;
        }
      }
  std::vector<int64_t> sizes;
  for (int64_t c = places, end = all; c > 0; --c) {
    sizes.insert(sizes.begin(), end - begin[size_t(c)][size_t(end)]);
    end = begin[size_t(c)][size_t(end)];
  }
  return sizes;
}

/// For stages with so many chunks each. There are as many iterations as chunks, or more.
inline std::vector<runtime::OwnerMap> balanced(const StageCosts &costs, int64_t stages, int64_t chunks) {
  std::vector<int64_t> counts;
  for (const RepeatCosts &repeat : costs.repeats)
    counts.push_back(repeat.count);
  std::vector<runtime::OwnerMap> maps;
  for (const std::vector<int64_t> &sizes :
       dealtOut(counts, counts.size() == 1 ? balancedOne(costs, stages, chunks) : balancedRow(costs, stages * chunks)))
    maps.push_back(runtime::OwnerMap::unequal(chunks, sizes));
  return maps;
}

} // namespace echelon::pipeline
