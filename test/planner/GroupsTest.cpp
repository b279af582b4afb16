// Where a mesh lies on nodes.
#include "planner/timeline/Groups.h"
#include "gtest/gtest.h"

using namespace echelon::planner;

namespace {

/// mesh(pp = 2, dp = 4, tp = 8) on nodes of 8: tp within a node, dp and pp across, tp's ranks beside each other.
TEST(Groups, OfAMesh) {
  const std::vector<int64_t> mesh = {2, 4, 8};
  const Group tp = groupOf(mesh, {2}, 8);
  EXPECT_EQ(tp.ranks, 8);
  EXPECT_EQ(tp.nodes, 1);
  EXPECT_EQ(tp.perNode, 8);
  EXPECT_EQ(tp.beside, 1);
  const Group dp = groupOf(mesh, {1}, 8);
  EXPECT_EQ(dp.ranks, 4);
  EXPECT_EQ(dp.nodes, 4);
  EXPECT_EQ(dp.perNode, 1);
  EXPECT_EQ(dp.beside, 8);
  EXPECT_EQ(dp.apart, 1);
  const Group pp = groupOf(mesh, {0}, 8);
  EXPECT_EQ(pp.nodes, 2);
  EXPECT_EQ(pp.apart, 4);
  const Group both = groupOf(mesh, {1, 2}, 8);
  EXPECT_EQ(both.ranks, 32);
  EXPECT_EQ(both.nodes, 4);
  EXPECT_EQ(both.perNode, 8);
}

/// mesh(dp = 4, tp = 4) on nodes of 8: two of dp's ranks are in one node.
TEST(Groups, PartlyWithinANode) {
  const Group dp = groupOf({4, 4}, {0}, 8);
  EXPECT_EQ(dp.ranks, 4);
  EXPECT_EQ(dp.nodes, 2);
  EXPECT_EQ(dp.perNode, 2);
  EXPECT_EQ(dp.beside, 4);
}

/// A world that is smaller than a node.
TEST(Groups, WithinOneNode) {
  const Group group = groupOf({2, 2}, {0}, 8);
  EXPECT_EQ(group.nodes, 1);
  EXPECT_EQ(group.perNode, 2);
  EXPECT_EQ(group.beside, 2);
}

/// Some neighbors are in one node, some are not.
TEST(Groups, Neighbors) {
  EXPECT_EQ(neighborsOf({8, 4}, 0, 0, 1, 8).nodes, 1);
  EXPECT_EQ(neighborsOf({8, 4}, 0, 1, 2, 8).nodes, 2);
  EXPECT_EQ(neighborsOf({8, 4}, 0, 7, 0, 8).nodes, 2);
}

} // namespace
