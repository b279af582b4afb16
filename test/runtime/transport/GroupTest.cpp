#include "runtime/transport/Group.h"

#include <gtest/gtest.h>

using namespace echelon::runtime;
using Ranks = std::vector<int>;

// Ranks are numbered row-major, the last axis fastest; a group keeps the coordinates of the axes it is not over.
TEST(Group, RanksOverMeshAxes) {
  EXPECT_EQ(ranksOver({2, 3}, {1}, 4), (Ranks{3, 4, 5}));
  EXPECT_EQ(ranksOver({2, 3}, {0}, 4), (Ranks{1, 4}));
  EXPECT_EQ(ranksOver({2, 3}, {0, 1}, 4), (Ranks{0, 1, 2, 3, 4, 5}));
  EXPECT_EQ(ranksOver({2, 3}, {}, 4), (Ranks{4}));
  EXPECT_EQ(ranksOver({2, 2, 2}, {0, 2}, 3), (Ranks{2, 3, 6, 7}));
}
