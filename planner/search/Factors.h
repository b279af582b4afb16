// Whole numbers and axes, as a search takes them apart.
#pragma once
#include <cstdint>
#include <string>
#include <vector>

namespace echelon::planner {

/// All divisors, ascending.
std::vector<int64_t> divisorsOf(int64_t number);

/// Every way to write a number as a product of so many, in order; ascending in the first, then the second, ….
std::vector<std::vector<int64_t>> factorizationsOf(int64_t number, size_t parts);

/// How many there are.
double factorizationsCount(int64_t number, size_t parts);

/// What has several axes at once, as a parameter has, and how much it is worth that one of them is divided.
struct AxisGroup {
  std::vector<size_t> axes;
  double weight = 1;
};

/// Lists of axes of which no group has two, and to which none can be added; the most worth of groups that have one of
/// them comes first, then the shorter list. At most so many. Dividing the axes of such a list divides each group once.
/// Of very many axes not all lists are looked at.
std::vector<std::vector<size_t>> apartLists(size_t axes, const std::vector<AxisGroup> &groups, size_t most);

} // namespace echelon::planner
