#include "planner/timeline/Groups.h"
#include <algorithm>
#include <functional>

namespace echelon::planner {

namespace {
int64_t strideOf(const std::vector<int64_t> &sizes, int64_t axis) {
  int64_t stride = 1;
  for (size_t i = size_t(axis) + 1; i < sizes.size(); ++i)
    stride *= sizes[i];
  return stride;
}

/// `ranks`: ascending, of a world of so many.
Group groupOfRanks(const std::vector<int64_t> &ranks, int64_t world, int64_t perNode) {
  perNode = std::max<int64_t>(1, std::min(perNode, world));
  Group group;
  group.ranks = int64_t(ranks.size());
  group.perNode = 0;
  group.nodes = 0;
  int64_t last = -1, here = 0;
  for (int64_t rank : ranks) {
    const int64_t node = rank / perNode;
    if (node != last) {
      if (group.nodes == 1)
        group.apart = node - last;
      ++group.nodes;
      here = 0;
      last = node;
    }
    group.perNode = std::max(group.perNode, ++here);
  }
  group.beside = std::max<int64_t>(1, perNode / group.perNode);
  return group;
}
} // namespace

Group groupOf(const std::vector<int64_t> &sizes, const std::vector<int64_t> &axes, int64_t perNode) {
  std::vector<int64_t> ranks = {0};
  int64_t world = 1;
  for (int64_t size : sizes)
    world *= size;
  std::vector<int64_t> inward(axes);
  std::sort(inward.begin(), inward.end(), std::greater<>());
  for (int64_t axis : inward) { // the fastest first, so that ranks stay in order
    const int64_t stride = strideOf(sizes, axis), known = int64_t(ranks.size());
    ranks.reserve(ranks.size() * size_t(sizes[size_t(axis)]));
    for (int64_t at = 1; at < sizes[size_t(axis)]; ++at)
      for (int64_t i = 0; i < known; ++i)
        ranks.push_back(ranks[size_t(i)] + at * stride);
  }
  return groupOfRanks(ranks, world, perNode);
}

Group neighborsOf(const std::vector<int64_t> &sizes, int64_t axis, int64_t from, int64_t to, int64_t perNode) {
  int64_t world = 1;
  for (int64_t size : sizes)
    world *= size;
  const int64_t stride = strideOf(sizes, axis);
  return groupOfRanks({std::min(from, to) * stride, std::max(from, to) * stride}, world, perNode);
}

} // namespace echelon::planner
