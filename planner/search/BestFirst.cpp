#include "planner/search/BestFirst.h"
#include <algorithm>
#include <cmath>
#include <limits>
#include <queue>

namespace echelon::planner {

namespace {
struct Entry {
  double bound = 0;
  size_t candidate = 0;
  size_t level = 0; // so many bounds have been had beside the first

  bool operator>(const Entry &other) const {
    return bound != other.bound ? bound > other.bound : candidate > other.candidate;
  }
};

class Search {
public:
  explicit Search(const SearchProblem &problem);
  SearchResult run();

private:
  size_t groupOf(size_t candidate) const { return problem.groups.empty() ? candidate : problem.groups[candidate]; }
  bool isWithoutRoom(size_t candidate) const;
  bool isSlower(size_t candidate) const;
  void ask(const std::vector<size_t> &some);
  void tighten(const std::vector<Entry> &loose);

  const SearchProblem &problem;
  SearchResult result;
  double last = std::numeric_limits<double>::infinity(); // of those that are wanted: none is above it
  std::vector<double> best;                              // of those that fit, so many as are wanted; ascending
  std::priority_queue<Entry, std::vector<Entry>, std::greater<>> queue;
  std::vector<std::vector<size_t>> noRoom, fit; // by group
};

Search::Search(const SearchProblem &problem) : problem(problem) {
  size_t groups = problem.bounds.size();
  if (!problem.groups.empty())
    groups = *std::max_element(problem.groups.begin(), problem.groups.end()) + 1;
  noRoom.resize(groups);
  fit.resize(groups);
  result.counted = static_cast<int64_t>(problem.bounds.size());
  std::vector<Entry> entries;
  entries.reserve(problem.bounds.size());
  for (size_t i = 0; i < problem.bounds.size(); ++i)
    entries.push_back({problem.bounds[i], i, 0});
  queue = decltype(queue)(std::greater<>(), std::move(entries));
}

bool Search::isWithoutRoom(size_t candidate) const {
  const auto &known = noRoom[groupOf(candidate)];
  return problem.needsNoLess &&
         std::any_of(known.begin(), known.end(), [&](size_t lean) { return problem.needsNoLess(lean, candidate); });
}

bool Search::isSlower(size_t candidate) const {
  const auto &known = fit[groupOf(candidate)];
  return problem.isNoFaster &&
         std::any_of(known.begin(), known.end(), [&](size_t other) { return problem.isNoFaster(other, candidate); });
}

void Search::ask(const std::vector<size_t> &some) {
  const std::vector<Price> prices = problem.ask(some);
  result.asked += static_cast<int64_t>(some.size());
  for (size_t i = 0; i < some.size(); ++i) {
    const Price &price = prices[i];
    if (price.kind == Price::Kind::Refused) {
      result.refused.push_back(some[i]);
    } else if (price.kind == Price::Kind::NoRoom) {
      result.noRoom.push_back({some[i], price});
      noRoom[groupOf(some[i])].push_back(some[i]);
      ++result.without;
    } else {
      result.fit.push_back({some[i], price});
      fit[groupOf(some[i])].push_back(some[i]);
      best.insert(std::upper_bound(best.begin(), best.end(), price.seconds), price.seconds);
      best.resize(std::min(best.size(), problem.wanted));
      if (best.size() == problem.wanted)
        last = best.back();
    }
  }
}

void Search::tighten(const std::vector<Entry> &loose) {
  for (size_t level = 0; level < problem.tighten.size(); ++level) {
    std::vector<Entry> here;
    std::vector<size_t> some;
    for (const Entry &entry : loose)
      if (entry.level == level) {
        here.push_back(entry);
        some.push_back(entry.candidate);
      }
    if (some.empty())
      continue;
    const std::vector<double> bounds = problem.tighten[level](some);
    for (size_t i = 0; i < some.size(); ++i)
      if (std::isinf(bounds[i]))
        ++result.without;
      else
        queue.push({std::max(bounds[i], here[i].bound), some[i], level + 1});
  }
}

SearchResult Search::run() {
  for (bool isGoing = true; isGoing;) {
    std::vector<size_t> tight;
    std::vector<Entry> loose;
    isGoing = false;
    while (!queue.empty() && loose.size() < problem.roundOfBounds && tight.size() < problem.round &&
           queue.top().bound < last) {
      const Entry entry = queue.top();
      queue.pop();
      isGoing = true;
      if (isWithoutRoom(entry.candidate))
        ++result.without;
      else if (isSlower(entry.candidate))
        ++result.cut;
      else if (entry.level < problem.tighten.size())
        loose.push_back(entry);
      else
        tight.push_back(entry.candidate);
    }
    tighten(loose);
    if (!tight.empty())
      ask(tight);
  }
  result.cut += static_cast<int64_t>(queue.size());
  std::sort(result.fit.begin(), result.fit.end(), [](const auto &a, const auto &b) {
    return a.second.seconds != b.second.seconds ? a.second.seconds < b.second.seconds : a.first < b.first;
  });
  return std::move(result);
}
} // namespace

SearchResult searchBestFirst(const SearchProblem &problem) { return Search(problem).run(); }

} // namespace echelon::planner
