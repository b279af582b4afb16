#include "runtime/program/Layout.h"
#include "runtime/program/Program.h"

#include <gtest/gtest.h>

using namespace echelon::runtime;

namespace {

const std::vector<MeshAxis> kMesh = {{"dp", 2}, {"tp", 2}};

// Every element of `layout` is held by the expected number of ranks, and local places never overlap.
void expectCover(const Layout &layout, const std::vector<std::string> &declared, const std::vector<MeshAxis> &mesh,
                 int copies) {
  std::vector<int> held(size_t(logicalCount(layout)));
  std::vector<int> written(held.size());
  for (int rank = 0; rank < meshSize(mesh); ++rank) {
    const std::vector<int> coordinates = meshCoordinates(mesh, rank);
    std::vector<int> local(size_t(localCount(layout, mesh)));
    forEachRun(layout, declared, mesh, coordinates, [&](const Run &run) {
      for (int64_t i = 0; i < run.count; ++i) {
        ++local.at(size_t(run.local + i));
        ++held.at(size_t(run.logical + i * run.stride));
        written.at(size_t(run.logical + i * run.stride)) += writesPiece(layout, mesh, coordinates);
      }
    });
    for (int n : local)
      EXPECT_LE(n, 1);
  }
  for (size_t i = 0; i < held.size(); ++i) {
    EXPECT_EQ(held[i], copies) << "element " << i;
    EXPECT_EQ(written[i], 1) << "element " << i;
  }
}

// Ranks are row-major over the mesh, the last axis fastest.
// A shape as text: axes in storage order, what splits each, sizes with padding, flat cuts.
TEST(Layout, IsReadFromText) {
  Layout layout = layoutOf(kMesh, "layer=4 head=5:6/tp/dp key=32 flat/dp");
  ASSERT_EQ(layout.axes.size(), 3u);
  EXPECT_EQ(layout.axes[0].name, "layer");
  EXPECT_EQ(layout.axes[0].size, 4);
  EXPECT_TRUE(layout.axes[0].over.empty());
  EXPECT_EQ(layout.axes[1].size, 5);
  EXPECT_EQ(layout.axes[1].padded, 6);
  EXPECT_EQ(layout.axes[1].over, (std::vector<int>{1, 0}));
  EXPECT_EQ(layout.axes[2].padded, 0);
  EXPECT_EQ(layout.flatCuts, std::vector<int>{0});
  EXPECT_TRUE(layoutOf(kMesh, "").axes.empty());
}

// One coordinate alone has the one position of an axis of the mesh axis's: others hold nothing.
TEST(Layout, IsPlaced) {
  Program program;
  program.mesh = kMesh;
  program.store(Stored::Param, "w", "@dp=1:2/dp:1:0,1 a=6 b=4/tp", {Init::Normal, 0.1}, 64);
  const Stored &w = program.stored.back();
  EXPECT_EQ(w.axes, (std::vector<std::string>{"a", "b"}));
  EXPECT_EQ(logicalSizes(w.layout, w.axes), (std::vector<int64_t>{6, 4}));
  EXPECT_EQ(localCount(w.layout, kMesh), 12);
  expectCover(w.layout, w.axes, kMesh, 1);
  int runs = 0;
  forEachRun(w.layout, w.axes, kMesh, {0, 1}, [&](const auto &) { ++runs; });
  EXPECT_EQ(runs, 0);
  expectCover(layoutOf(kMesh, "@dp=1:2/dp:1:1,0 a=5 flat/tp"), {"a"}, kMesh, 1);
}

// What the optimizer keeps has its parameter's shape.
TEST(Layout, MomentsAreLikeTheirParameter) {
  Program program;
  program.mesh = kMesh;
  program.store(Stored::Param, "w", "a=4/dp b=3", {Init::Normal, 0.1}, 64, ElementType::Float64);
  program.store(Stored::State, "mean", "b=3", {Init::Zeros}, 96);
  program.storeMoments("m", 64);
  program.storeMoments("v", 128);
  ASSERT_EQ(program.stored.size(), 4u);
  EXPECT_EQ(program.stored[2].path, "optimizer.m.w");
  EXPECT_EQ(program.stored[2].offset, 128);
  EXPECT_EQ(program.stored[3].path, "optimizer.v.w");
  EXPECT_EQ(program.stored[3].kind, Stored::Optimizer);
  EXPECT_EQ(program.stored[3].offset, 192);
  EXPECT_EQ(program.stored[3].axes, (std::vector<std::string>{"a", "b"}));
  EXPECT_EQ(program.stored[3].layout.axes[0].over, std::vector<int>{0});
  EXPECT_EQ(program.stored[3].type, ElementType::Float64);
  EXPECT_EQ(program.stored[3].init.kind, Init::Zeros);
}

TEST(Layout, Coordinates) {
  EXPECT_EQ(meshCoordinates(kMesh, 2), (std::vector<int>{1, 0}));
  EXPECT_EQ(meshCoordinates({{"a", 2}, {"b", 3}, {"c", 2}}, 9), (std::vector<int>{1, 1, 1}));
}

// The piece of rank (dp 1, tp 0) of an axis split over (tp, dp), tp slowest.
TEST(Layout, NestedSplit) {
  const Layout layout = {{{"embed", 8, {1, 0}}, {"ff", 6, {}}}, {}};
  const Piece piece = pieceOf(layout, kMesh, {1, 0});
  EXPECT_EQ(piece.runs, (std::vector<std::vector<Interval>>{{{2, 4}}, {{0, 6}}}));
  EXPECT_EQ(piece.size, (std::vector<int64_t>{2, 6}));
  EXPECT_EQ(piece.count, 12);
}

// Each slice along the first axis is cut flat by itself: 15 elements over 2 ranks, 8 and 7 and one of padding.
TEST(Layout, FlatCutsBelow) {
  const Layout layout = layoutOf(kMesh, "layer=4 | b=5 c=3 flat/dp");
  EXPECT_EQ(layout.aboveFlat, 1u);
  const Piece piece = pieceOf(layout, kMesh, {1, 0});
  EXPECT_EQ(piece.count, 4 * 8);
  EXPECT_EQ(piece.flatOffset, 8);
  std::vector<int64_t> held(4 * 8, -1);
  forEachRun(layout, {"layer", "b", "c"}, kMesh, {1, 0}, [&](const echelon::runtime::Run &run) {
    for (int64_t i = 0; i < run.count; ++i)
      held[size_t(run.local + i)] = run.logical + i * run.stride;
  });
  for (int64_t layer = 0; layer < 4; ++layer)
    for (int64_t i = 0; i < 8; ++i)
      EXPECT_EQ(held[size_t(layer * 8 + i)], i < 7 ? layer * 15 + 8 + i : -1);
}

// Chunks r and 2n - 1 - r of 2n; nested, inside of what slower mesh axes leave.
TEST(Layout, ChunksAreRuns) {
  using Runs = std::vector<Interval>;
  const std::vector<MeshAxis> mesh = {{"cp", 3}, {"tp", 2}};
  auto runs = [&](const std::string &shape, int cp, int tp) {
    return pieceOf(layoutOf(mesh, shape), mesh, {cp, tp}).runs[0];
  };
  EXPECT_EQ(runs("seq=12/cp:zigzag", 0, 0), (Runs{{0, 2}, {10, 12}}));
  EXPECT_EQ(runs("seq=12/cp:zigzag", 1, 0), (Runs{{2, 4}, {8, 10}}));
  EXPECT_EQ(runs("seq=12/cp:zigzag", 2, 0), (Runs{{4, 8}})); // chunks side by side are one run
  EXPECT_EQ(runs("seq=12/cp:2", 1, 0), (Runs{{2, 4}, {8, 10}}));
  EXPECT_EQ(runs("seq=18/cp:3", 2, 0), (Runs{{4, 6}, {10, 12}, {16, 18}}));
  EXPECT_EQ(runs("seq=12/cp:zigzag/tp", 0, 1), (Runs{{10, 12}}));
  EXPECT_EQ(runs("seq=12/tp/cp:zigzag", 1, 1), (Runs{{7, 8}, {10, 11}}));
  EXPECT_EQ(runs("seq=12/cp:zigzag/tp:zigzag", 1, 0), (Runs{{2, 3}, {9, 10}}));
  const std::vector<MeshAxis> three = {{"cp", 2}, {"dp", 3}}; // a cut takes a part of what is stored
  EXPECT_EQ(pieceOf(layoutOf(three, "seq=12/cp:zigzag/dp"), three, {0, 1}).runs[0], (Runs{{2, 3}, {9, 10}}));
}

// Chunks of unequal sizes are stored as the largest: what is behind a smaller one stands for positions past the last.
TEST(Layout, UnequalChunksArePadded) {
  using Runs = std::vector<Interval>;
  const std::vector<MeshAxis> mesh = {{"pp", 3}, {"dp", 2}};
  auto runs = [&](const std::string &shape, int pp) { return pieceOf(layoutOf(mesh, shape), mesh, {pp, 0}).runs[0]; };
  EXPECT_EQ(runs("layer=6:9/pp:1:1,3,2", 0), (Runs{{0, 1}, {6, 8}}));
  EXPECT_EQ(runs("layer=6:9/pp:1:1,3,2", 1), (Runs{{1, 4}}));
  EXPECT_EQ(runs("layer=6:9/pp:1:1,3,2", 2), (Runs{{4, 6}, {8, 9}}));
  EXPECT_EQ(runs("layer=9:12/pp:2:1,2,2,2,1,1", 0), (Runs{{0, 1}, {9, 10}, {5, 7}}));
  EXPECT_EQ(runs("layer=9:12/pp:2:1,2,2,2,1,1", 1), (Runs{{1, 3}, {7, 8}, {10, 11}}));
  EXPECT_EQ(pieceOf(layoutOf(mesh, "layer=6:9/pp:1:1,3,2 a=5"), mesh, {0, 0}).count, 15);
  expectCover(layoutOf(mesh, "layer=6:9/pp:1:1,3,2 a=5"), {"layer", "a"}, mesh, 2);
  expectCover(layoutOf(mesh, "a=5 layer=9:12/pp:2:1,2,2,2,1,1"), {"layer", "a"}, mesh, 2);
  expectCover(layoutOf(mesh, "layer=6:9/pp:1:1,3,2 | a=5 flat/dp"), {"layer", "a"}, mesh, 1);
  expectCover(layoutOf(mesh, "layer=6:9/pp:1:1,3,2 a=5 flat/dp"), {"layer", "a"}, mesh, 1);
}

// Splits, nested splits, storage in another order, padding, flat cuts (one, two, with remainders): each element is held
// as often as there are ranks that share a piece, and written once.
TEST(Layout, EveryElementIsCovered) {
  expectCover({{{"a", 6, {}}, {"b", 4, {1}}}, {}}, {"a", "b"}, kMesh, 2);
  expectCover({{{"b", 4, {1, 0}}, {"a", 6, {}}}, {}}, {"a", "b"}, kMesh, 1);
  expectCover({{{"a", 5, {0}, 6}, {"b", 3, {1}, 4}}, {}}, {"b", "a"}, kMesh, 1);
  expectCover({{{"a", 5, {}}, {"b", 3, {}}}, {0}}, {"a", "b"}, kMesh, 2);
  expectCover({{{"a", 5, {}}, {"b", 3, {}}}, {1, 0}}, {"b", "a"}, kMesh, 1);
  expectCover({{{"a", 7, {1}, 8}}, {0}}, {"a"}, kMesh, 1);
  expectCover({{{"a", 1, {}}}, {0, 1}}, {"a"}, {{"dp", 3}, {"tp", 3}}, 1);
  expectCover({{}, {}}, {}, kMesh, 4);
  expectCover(layoutOf(kMesh, "a=3 b=8/tp:zigzag"), {"a", "b"}, kMesh, 2);
  expectCover(layoutOf(kMesh, "b=8/tp:zigzag/dp a=3"), {"a", "b"}, kMesh, 1);
  expectCover(layoutOf(kMesh, "a=4/dp:2 b=8/tp:zigzag c=3"), {"c", "b", "a"}, kMesh, 1);
  expectCover(layoutOf(kMesh, "b=8/tp:zigzag c=3 flat/dp"), {"b", "c"}, kMesh, 1);
  expectCover(layoutOf(kMesh, "a=2 | b=4/tp:zigzag c=5 flat/dp"), {"c", "b", "a"}, kMesh, 1);
  expectCover(layoutOf({{"x", 3}, {"y", 2}, {"z", 4}}, "a=12/x:zigzag/y b=7 flat/z"), {"a", "b"},
              {{"x", 3}, {"y", 2}, {"z", 4}}, 1);
  expectCover({{{"a", 2, {}}, {"b", 5, {}}}, {0}, 1}, {"a", "b"}, kMesh, 2); // each slice cut by itself
  expectCover({{{"a", 2, {1}}, {"c", 3, {}}, {"b", 5, {}}}, {0}, 2}, {"b", "a", "c"}, kMesh, 1);
  expectCover({{{"a", 5, {1}, 6}, {"b", 3, {}}, {"c", 3, {}}}, {0, 2}, 1}, {"a", "c", "b"},
              {{"x", 2}, {"y", 3}, {"z", 4}}, 1);
  expectCover({{{"a", 13, {}}, {"b", 1, {}}}, {1, 0, 2}}, {"a", "b"}, {{"x", 2}, {"y", 3}, {"z", 2}}, 1);
}

} // namespace
