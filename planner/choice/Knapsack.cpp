// Dynamic programming over the items and the room that is left.
#include "planner/choice/Knapsack.h"

#include <algorithm>

namespace echelon::planner {

std::vector<size_t> worthMost(const std::vector<Item> &items, int64_t room) {
  constexpr int64_t kUnits = 4096;
  if (room < 0)
    return {};
  const int64_t unit = std::max<int64_t>((room + kUnits - 1) / kUnits, 1);
  const auto units = static_cast<size_t>(room / unit);
  auto size = [&](const Item &item) { return static_cast<size_t>((item.bytes + unit - 1) / unit); };
  // most[i][r]: the worth of the best of the first i items in r units
  std::vector<std::vector<double>> most(items.size() + 1, std::vector<double>(units + 1, 0));
  for (size_t i = 0; i < items.size(); ++i)
    for (size_t r = 0; r <= units; ++r) {
      const size_t own = size(items[i]);
      most[i + 1][r] = own <= r ? std::max(most[i][r], most[i][r - own] + items[i].value) : most[i][r];
    }
  std::vector<size_t> chosen;
  size_t left = units;
  for (size_t i = items.size(); i-- > 0;)
    if (most[i + 1][left] > most[i][left]) {
      chosen.push_back(i);
      left -= size(items[i]);
    }
  std::reverse(chosen.begin(), chosen.end());
  return chosen;
}

} // namespace echelon::planner
