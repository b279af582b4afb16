// The fastest of many candidates, without asking what each of them takes: those that a bound from below rules out are
// never asked.
#pragma once
#include <cstddef>
#include <cstdint>
#include <functional>
#include <utility>
#include <vector>

namespace echelon::planner {

/// What is known of a candidate once it was asked.
struct Price {
  enum class Kind { Fits, NoRoom, Refused };
  Kind kind = Kind::Refused;
  double seconds = 0; ///< of a step, also where it has no room
  int64_t bytes = 0;  ///< of a rank
};

struct SearchProblem {
  std::vector<double> bounds; ///< of each candidate: seconds that it takes at least
  /// Asks some candidates, which may be done at once.
  std::function<std::vector<Price>(const std::vector<size_t> &)> ask;
  /// Bounds that are nearer and cost more to have, each more than the one before; infinity: it has no room.
  std::vector<std::function<std::vector<double>(const std::vector<size_t> &)>> tighten;
  /// The group of each candidate: within one, rules compare them. Empty: each is one of its own.
  std::vector<size_t> groups;
  /// Whether the second needs no less memory than the first, by a rule.
  std::function<bool(size_t, size_t)> needsNoLess;
  /// Whether the second is not faster than the first, by a rule.
  std::function<bool(size_t, size_t)> isNoFaster;
  size_t wanted = 1;         ///< so many of the fastest are found: fewer only where no more have room
  size_t round = 4;          ///< candidates that are asked at once: the same whatever the number of threads
  size_t roundOfBounds = 64; ///< bounds that are had at once
};

struct SearchResult {
  std::vector<std::pair<size_t, Price>> fit; ///< that were asked and have room, fastest first, then in their order
  std::vector<std::pair<size_t, Price>> noRoom;
  std::vector<size_t> refused;
  int64_t counted = 0; ///< candidates
  int64_t without = 0; ///< that have no room, asked or by the rule
  int64_t cut = 0;     ///< that the bound or the rule of time rules out
  int64_t asked = 0;
};

/// Best first by bound. The first `wanted` that fit are not slower than any other candidate which has room and which no
/// rule of time leaves out: none of those that were not asked has a bound below their times.
SearchResult searchBestFirst(const SearchProblem &problem);

} // namespace echelon::planner
