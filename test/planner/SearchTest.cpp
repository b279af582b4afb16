// The search against trying everything.
#include "planner/search/BestFirst.h"
#include "planner/search/Factors.h"
#include <algorithm>
#include <gtest/gtest.h>
#include <limits>
#include <random>
#include <set>

using namespace echelon::planner;

namespace {

TEST(Factors, Divisors) {
  EXPECT_EQ(divisorsOf(1), (std::vector<int64_t>{1}));
  EXPECT_EQ(divisorsOf(12), (std::vector<int64_t>{1, 2, 3, 4, 6, 12}));
  EXPECT_EQ(divisorsOf(49), (std::vector<int64_t>{1, 7, 49}));
}

TEST(Factors, EveryProductOnce) {
  for (int64_t number : {1, 2, 6, 16, 60})
    for (size_t parts : {1, 2, 3}) {
      std::set<std::vector<int64_t>> expected, found;
      std::vector<int64_t> all(parts, 1);
      for (;;) { // every tuple of numbers up to the product
        int64_t product = 1;
        for (int64_t each : all)
          product *= each;
        if (product == number)
          expected.insert(all);
        size_t at = 0;
        while (at < parts && ++all[at] > number)
          all[at++] = 1;
        if (at == parts)
          break;
      }
      const auto made = factorizationsOf(number, parts);
      found.insert(made.begin(), made.end());
      EXPECT_EQ(found.size(), made.size());
      EXPECT_EQ(found, expected) << number << " in " << parts;
    }
  EXPECT_EQ(factorizationsOf(1, 0).size(), 1u);
  EXPECT_TRUE(factorizationsOf(2, 0).empty());
}

TEST(Factors, ListsOfAxesApart) {
  // vocab 0, embed 1, head 2, key 3, ff 4
  const std::vector<AxisGroup> groups = {{{0, 1}, 10}, {{1, 2, 3}, 4}, {{1, 4}, 8}, {{1}, 1}};
  EXPECT_EQ(apartLists(5, groups, 9), (std::vector<std::vector<size_t>>{{1}, {0, 2, 4}, {0, 3, 4}}));
  EXPECT_EQ(apartLists(5, groups, 1).size(), 1u);
}

TEST(Factors, ListsAreAllThatNothingCanBeAddedTo) {
  std::mt19937 random(7);
  for (int round = 0; round < 200; ++round) {
    const size_t axes = 1 + random() % 7;
    std::vector<AxisGroup> groups(random() % 6);
    for (AxisGroup &group : groups)
      for (size_t axis = 0; axis < axes; ++axis)
        if (random() % 3 == 0)
          group.axes.push_back(axis);
    auto isApart = [&](unsigned set) {
      return std::all_of(groups.begin(), groups.end(), [&](const AxisGroup &group) {
        return std::count_if(group.axes.begin(), group.axes.end(), [&](size_t axis) { return set >> axis & 1; }) <= 1;
      });
    };
    std::set<std::vector<size_t>> expected;
    for (unsigned set = 0; set < 1u << axes; ++set) {
      bool isFull = isApart(set);
      for (size_t axis = 0; axis < axes; ++axis)
        isFull &= (set >> axis & 1) || !isApart(set | 1u << axis);
      std::vector<size_t> list;
      for (size_t axis = 0; axis < axes; ++axis)
        if (set >> axis & 1)
          list.push_back(axis);
      if (isFull)
        expected.insert(list);
    }
    const auto made = apartLists(axes, groups, 1000);
    EXPECT_EQ(std::set<std::vector<size_t>>(made.begin(), made.end()), expected);
    EXPECT_EQ(made.size(), expected.size());
  }
}

TEST(Factors, AreCounted) {
  for (int64_t number = 1; number <= 96; ++number)
    for (size_t parts = 0; parts < 5; ++parts)
      EXPECT_EQ(factorizationsCount(number, parts), double(factorizationsOf(number, parts).size()))
          << number << " in " << parts;
  EXPECT_GT(factorizationsCount(1 << 20, 10), 1e6);
}

/// Of sixty axes, each beside the next one, some lists are found at once.
TEST(ApartLists, OfVeryManyAxes) {
  std::vector<AxisGroup> groups;
  for (size_t axis = 0; axis + 1 < 60; ++axis)
    groups.push_back({{axis, axis + 1}});
  EXPECT_EQ(apartLists(60, groups, 4).size(), 4u);
  std::vector<AxisGroup> pairs; // one list takes one of each pair: two to the power of thirty
  for (size_t axis = 0; axis < 60; axis += 2)
    pairs.push_back({{axis, axis + 1}});
  EXPECT_EQ(apartLists(60, pairs, 4).size(), 4u);
}

/// Candidates with times and bytes at random, in groups; bounds are below times, rules hold.
struct Random {
  explicit Random(unsigned seed) : random(seed) {
    const size_t groups = 1 + random() % 5;
    for (size_t group = 0; group < groups; ++group)
      for (int stored = 0; stored < 2; ++stored) {
        const int64_t state = 10 + int64_t(random() % 60) / (stored + 1), sample = 1 + int64_t(random() % 20);
        for (int64_t each = 1; each <= 8; each *= 2) {
          problem.groups.push_back(group);
          per.push_back(each);
          cut.push_back(stored);
          bytes.push_back((stored ? 0 : 200) + state + each * sample);
          seconds.push_back(1 + double(random() % 1000) / 100);
          refused.push_back(random() % 10 == 0);
          problem.bounds.push_back(seconds.back() * double(random() % 100) / 100);
        }
      }
    room = int64_t(random() % 300);
    problem.needsNoLess = [this](size_t a, size_t b) {
      return per[a] <= per[b] && cut[a] >= cut[b] && bytes[a] <= bytes[b];
    };
    problem.wanted = 1 + random() % 4;
    problem.round = 1 + random() % 5;
    problem.roundOfBounds = 1 + random() % 20;
    problem.ask = [this](const std::vector<size_t> &some) {
      std::vector<Price> prices;
      for (size_t i : some) {
        EXPECT_TRUE(asked.insert(i).second) << "asked twice";
        prices.push_back({refused[i]        ? Price::Kind::Refused
                          : bytes[i] > room ? Price::Kind::NoRoom
                                            : Price::Kind::Fits,
                          seconds[i], bytes[i]});
      }
      return prices;
    };
    for (unsigned levels = random() % 4, level = 1; level <= levels; ++level)
      problem.tighten.push_back([this, part = double(level) / double(levels + 1)](const std::vector<size_t> &some) {
        std::vector<double> bounds;
        for (size_t i : some)
          bounds.push_back((1 - part) * problem.bounds[i] + part * seconds[i]);
        return bounds;
      });
  }

  /// Times of all that have room, ascending.
  std::vector<double> allThatFit() const {
    std::vector<double> all;
    for (size_t i = 0; i < seconds.size(); ++i)
      if (!refused[i] && bytes[i] <= room)
        all.push_back(seconds[i]);
    std::sort(all.begin(), all.end());
    return all;
  }

  std::mt19937 random;
  SearchProblem problem;
  std::vector<double> seconds;
  std::vector<int64_t> bytes, per;
  std::vector<int> cut;
  std::vector<bool> refused;
  std::set<size_t> asked;
  int64_t room = 0;
};

TEST(BestFirst, FindsWhatTryingEverythingFinds) {
  int64_t all = 0, asked = 0;
  int found = 0;
  for (unsigned seed = 0; seed < 500; ++seed) {
    Random of(seed);
    const SearchResult result = searchBestFirst(of.problem);
    std::vector<double> expected = of.allThatFit(), first;
    expected.resize(std::min(expected.size(), of.problem.wanted));
    for (size_t i = 0; i < std::min(result.fit.size(), of.problem.wanted); ++i)
      first.push_back(result.fit[i].second.seconds);
    EXPECT_EQ(first, expected) << seed;
    found += expected.size() == of.problem.wanted;
    // each candidate is accounted for once
    EXPECT_EQ(result.counted,
              result.without + result.cut + int64_t(result.fit.size()) + int64_t(result.refused.size()));
    EXPECT_EQ(result.asked, int64_t(of.asked.size()));
    all += result.counted;
    asked += result.asked;
  }
  EXPECT_GT(found, 250);
  EXPECT_LT(asked * 3, all * 2);
}

TEST(BestFirst, TheFirstOfEquallyFastOnes) {
  SearchProblem problem;
  problem.bounds = {1, 1, 1, 3};
  problem.round = 3;
  problem.ask = [](const std::vector<size_t> &some) {
    return std::vector<Price>(some.size(), {Price::Kind::Fits, 2, 0});
  };
  const SearchResult result = searchBestFirst(problem);
  ASSERT_EQ(result.fit.size(), 3u);
  EXPECT_EQ(result.fit.front().first, 0u);
  EXPECT_EQ(result.cut, 1);
}

/// A rule of time leaves out what is no faster than one that fits, though more are wanted.
TEST(BestFirst, RulesOfTimeLeaveOut) {
  SearchProblem problem;
  problem.bounds = {1, 2, 3};
  problem.groups = {0, 0, 0};
  problem.wanted = 3;
  problem.round = 1;
  problem.isNoFaster = [](size_t a, size_t b) { return a == 0 && b == 1; };
  problem.ask = [](const std::vector<size_t> &some) {
    return std::vector<Price>(some.size(), {Price::Kind::Fits, 4, 0});
  };
  const SearchResult result = searchBestFirst(problem);
  EXPECT_EQ(result.fit.size(), 2u);
  EXPECT_EQ(result.cut, 1);
}

TEST(BestFirst, BoundsWithoutEndHaveNoRoom) {
  SearchProblem problem;
  problem.bounds = {1, 1};
  problem.tighten.push_back([](const std::vector<size_t> &some) {
    return std::vector<double>(some.size(), std::numeric_limits<double>::infinity());
  });
  problem.ask = [](const std::vector<size_t> &some) { return std::vector<Price>(some.size()); };
  const SearchResult result = searchBestFirst(problem);
  EXPECT_EQ(result.without, 2);
  EXPECT_EQ(result.asked, 0);
}

} // namespace
