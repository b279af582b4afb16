// Where the ranks of a message are: a mesh lies over nodes rank by rank, its last axis fastest.
#pragma once
#include "planner/machine/Work.h"

namespace echelon::planner {

/// The ranks that differ in some axes of a mesh alone, the first such group: all others lie as it does. `sizes`: of the
/// mesh's axes; `perNode`: ranks of a node.
Group groupOf(const std::vector<int64_t> &sizes, const std::vector<int64_t> &axes, int64_t perNode);

/// Two neighbors along an axis, at `from` and `to`, where all other coordinates are 0.
Group neighborsOf(const std::vector<int64_t> &sizes, int64_t axis, int64_t from, int64_t to, int64_t perNode);

} // namespace echelon::planner
