#include "planner/search/BestFirst.h"
#include <algorithm>
#include <limits>
#include <queue>

namespace echelon::planner {

namespace {
struct Entry {
  double bound = 0;
  size_t candidate = 0;
  bool isTight = false;

  bool operator>(const Entry &other) const {
    return bound != other.bound ? bound > other.bound : candidate > other.candidate;
  }
};
} // namespace

SearchResult searchBestFirst(const SearchProblem &problem) {
  std::priority_queue<Entry, std::vector<Entry>, std::greater<>> queue;
  SearchResult result;
  result.counted = static_cast<int64_t>(problem.bounds.size());
  for (size_t i = 0; i < problem.bounds.size(); ++i)
    queue.push({problem.bounds[i], i, !problem.tighten});
  double best = std::numeric_limits<double>::infinity();
  auto isWithoutRoom = [&](size_t candidate) {
    return problem.needsNoLess && std::any_of(result.noRoom.begin(), result.noRoom.end(), [&](const auto &known) {
             return problem.needsNoLess(known.first, candidate);
           });
  };
  auto isSlower = [&](size_t candidate) {
    return problem.isNoFaster && std::any_of(result.fit.begin(), result.fit.end(), [&](const auto &known) {
             return problem.isNoFaster(known.first, candidate);
           });
  };
  while (!queue.empty()) {
    std::vector<size_t> loose, tight;
    while (!queue.empty() && loose.size() + tight.size() < problem.round && queue.top().bound < best) {
      const Entry entry = queue.top();
      queue.pop();
      if (isWithoutRoom(entry.candidate))
        ++result.without;
      else if (isSlower(entry.candidate))
        ++result.cut;
      else
        (entry.isTight ? tight : loose).push_back(entry.candidate);
    }
    if (loose.empty() && tight.empty())
      break; // nothing, or nothing below the best
    if (!loose.empty()) {
      const std::vector<double> bounds = problem.tighten(loose);
      for (size_t i = 0; i < loose.size(); ++i)
        queue.push({std::max(bounds[i], problem.bounds[loose[i]]), loose[i], true});
    }
    if (tight.empty())
      continue;
    const std::vector<Price> prices = problem.ask(tight);
    result.asked += static_cast<int64_t>(tight.size());
    for (size_t i = 0; i < tight.size(); ++i) {
      const Price &price = prices[i];
      if (price.kind == Price::Kind::Refused) {
        result.refused.push_back(tight[i]);
      } else if (price.kind == Price::Kind::NoRoom) {
        result.noRoom.push_back({tight[i], price});
        ++result.without;
      } else {
        result.fit.push_back({tight[i], price});
        best = std::min(best, price.seconds);
      }
    }
  }
  result.cut += static_cast<int64_t>(queue.size());
  std::sort(result.fit.begin(), result.fit.end(), [](const auto &a, const auto &b) {
    return a.second.seconds != b.second.seconds ? a.second.seconds < b.second.seconds : a.first < b.first;
  });
  return result;
}

} // namespace echelon::planner
