// What is kept where there is no room for all: against sets found by hand, and against all sets there are.
#include "planner/choice/Knapsack.h"
#include <gtest/gtest.h>
#include <random>

using namespace echelon::planner;

namespace {

/// The best by worth a byte (60 of 10) leaves no room for the best pair, 20 and 30, which are worth 220.
TEST(Knapsack, BestByWorthOfAByteIsNotAlwaysThere) {
  EXPECT_EQ(worthMost({{10, 60}, {20, 100}, {30, 120}}, 50), (std::vector<size_t>{1, 2}));
}

TEST(Knapsack, TakesAllWhereThereIsRoom) {
  EXPECT_EQ(worthMost({{1 << 30, 1}, {1 << 29, 2}}, int64_t(1) << 33), (std::vector<size_t>{0, 1}));
}

TEST(Knapsack, TakesNothingThatIsWorthNothing) { EXPECT_TRUE(worthMost({{0, 0}, {1, 0}}, 10).empty()); }

TEST(Knapsack, WithoutRoomOnlyWhatTakesNoneIsTaken) {
  EXPECT_EQ(worthMost({{1, 5}, {0, 1}}, 0), (std::vector<size_t>{1}));
  EXPECT_TRUE(worthMost({{0, 1}}, -1).empty());
}

/// Twelve items drawn by seed: no set that fits is worth more.
TEST(Knapsack, NoSetOfAllIsWorthMore) {
  std::mt19937 random(3);
  for (int trial = 0; trial < 50; ++trial) {
    std::vector<Item> items(12);
    for (Item &item : items)
      item = {int64_t(random() % 400), double(random() % 1000)};
    const int64_t room = int64_t(random() % 2500);
    double best = 0;
    for (unsigned set = 0; set < 1u << items.size(); ++set) {
      double value = 0;
      int64_t bytes = 0;
      for (size_t i = 0; i < items.size(); ++i)
        if (set >> i & 1) {
          value += items[i].value;
          bytes += items[i].bytes;
        }
      if (bytes <= room)
        best = std::max(best, value);
    }
    double value = 0;
    int64_t bytes = 0;
    for (const size_t i : worthMost(items, room)) {
      value += items[i].value;
      bytes += items[i].bytes;
    }
    EXPECT_LE(bytes, room);
    EXPECT_DOUBLE_EQ(value, best);
  }
}

} // namespace
