// A group: the ranks that take part in a collective.
#pragma once

#include <cstddef>
#include <vector>

namespace echelon::runtime {

/// The set of ranks that share all mesh coordinates but those of certain mesh axes, ordered row-major by these axes.
/// Made by Transport::makeGroup; `ranks[index]` is the rank that holds it. The groups of one id are disjoint and cover
/// all ranks, so one id names "the collectives over these mesh axes" on every rank.
struct Group {
  std::vector<int> ranks; // numbers in the world
  int index = 0;          // place of this rank in `ranks`
  int id = 0;             // the same on every rank; 0 is the world

  int size() const { return static_cast<int>(ranks.size()); }
};

/// The ranks of the group of `rank` over the mesh axes `over` (indices into `meshSizes`, ascending), in row-major order
/// of these axes. Ranks are numbered row-major over the mesh, the last axis fastest. `meshSizes` multiply to the world.
inline std::vector<int> ranksOver(const std::vector<int> &meshSizes, const std::vector<int> &over, int rank) {
  std::vector<int> strides(meshSizes.size(), 1);
  for (size_t axis = meshSizes.size(); axis-- > 1;)
    strides[axis - 1] = strides[axis] * meshSizes[axis];
  int base = rank;
  for (int axis : over)
    base -= rank / strides[axis] % meshSizes[axis] * strides[axis];
  std::vector<int> ranks{base};
  for (int axis : over) {
    std::vector<int> wider;
    for (int first : ranks)
      for (int i = 0; i < meshSizes[axis]; ++i)
        wider.push_back(first + i * strides[axis]);
    ranks = wider;
  }
  return ranks;
}

} // namespace echelon::runtime
