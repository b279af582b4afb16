#include "planner/search/Factors.h"
#include <algorithm>

namespace echelon::planner {

std::vector<int64_t> divisorsOf(int64_t number) {
  std::vector<int64_t> low, high;
  for (int64_t d = 1; d * d <= number; ++d)
    if (number % d == 0) {
      low.push_back(d);
      if (d * d != number)
        high.push_back(number / d);
    }
  low.insert(low.end(), high.rbegin(), high.rend());
  return low;
}

std::vector<std::vector<int64_t>> factorizationsOf(int64_t number, size_t parts) {
  if (parts == 0)
    return number == 1 ? std::vector<std::vector<int64_t>>{{}} : std::vector<std::vector<int64_t>>{};
  if (parts == 1)
    return {{number}};
  std::vector<std::vector<int64_t>> all;
  for (int64_t first : divisorsOf(number))
    for (std::vector<int64_t> &rest : factorizationsOf(number / first, parts - 1)) {
      rest.insert(rest.begin(), first);
      all.push_back(std::move(rest));
    }
  return all;
}

double factorizationsCount(int64_t number, size_t parts) {
  if (parts == 0)
    return number == 1 ? 1 : 0;
  // so many ways to share out the powers of a prime: (power + parts - 1 over parts - 1)
  auto ofPower = [&](int64_t power) {
    double ways = 1;
    for (int64_t i = 1; i <= power; ++i)
      ways *= double(int64_t(parts) - 1 + i) / double(i);
    return ways;
  };
  double count = 1;
  for (int64_t prime = 2; prime * prime <= number; ++prime) {
    int64_t power = 0;
    for (; number % prime == 0; number /= prime)
      ++power;
    count *= ofPower(power);
  }
  return number > 1 ? count * ofPower(1) : count;
}

namespace {
/// Largest independent sets by extension: each axis is taken or not, in order; what nothing can be added to is kept.
class Apart {
public:
  Apart(size_t axes, const std::vector<AxisGroup> &groups, size_t most)
      : beside(axes, std::vector<bool>(axes)), most(most) {
    for (const AxisGroup &group : groups)
      for (size_t a : group.axes)
        for (size_t b : group.axes)
          if (a != b)
            beside[a][b] = true;
  }

  std::vector<std::vector<size_t>> run() {
    from(0, {});
    return std::move(found);
  }

private:
  bool goesWith(size_t axis, const std::vector<size_t> &taken) const {
    return std::none_of(taken.begin(), taken.end(), [&](size_t other) { return beside[axis][other]; });
  }

  void from(size_t axis, std::vector<size_t> taken) {
    constexpr size_t kMostSteps = 1 << 18;
    if (found.size() >= most || ++steps > kMostSteps)
      return;
    if (axis == beside.size()) {
      for (size_t other = 0; other < axis; ++other)
        if (std::find(taken.begin(), taken.end(), other) == taken.end() && goesWith(other, taken))
          return;
      found.push_back(std::move(taken));
      return;
    }
    if (goesWith(axis, taken)) {
      std::vector<size_t> more = taken;
      more.push_back(axis);
      from(axis + 1, std::move(more));
    }
    // left out only where something later keeps it out
    bool isKeptOut = !goesWith(axis, taken);
    for (size_t later = axis + 1; later < beside.size(); ++later)
      isKeptOut |= beside[axis][later];
    if (isKeptOut)
      from(axis + 1, std::move(taken));
  }

  std::vector<std::vector<bool>> beside; // which two a group has
  size_t most, steps = 0;
  std::vector<std::vector<size_t>> found;
};
} // namespace

std::vector<std::vector<size_t>> apartLists(size_t axes, const std::vector<AxisGroup> &groups, size_t most) {
  constexpr size_t kMostLookedAt = 4096;
  std::vector<std::vector<size_t>> lists = Apart(axes, groups, kMostLookedAt).run();
  auto worth = [&](const std::vector<size_t> &list) {
    double sum = 0;
    for (const AxisGroup &group : groups)
      if (std::any_of(group.axes.begin(), group.axes.end(),
                      [&](size_t axis) { return std::find(list.begin(), list.end(), axis) != list.end(); }))
        sum += group.weight;
    return sum;
  };
  std::stable_sort(lists.begin(), lists.end(), [&](const auto &a, const auto &b) {
    const double ofA = worth(a), ofB = worth(b);
    return ofA != ofB ? ofA > ofB : a.size() < b.size();
  });
  if (lists.size() > most)
    lists.resize(most);
  return lists;
}

} // namespace echelon::planner
