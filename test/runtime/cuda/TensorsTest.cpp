// Many tensors in one launch, and packs with a tail.
#include "runtime/cuda/Tensors.h"
#include "OnDevice.h"
#include "UnderSeeds.h"
#include "runtime/cuda/Pack.h"

namespace echelon::cuda {
namespace {

template <int k> using Rows = Tensors<k, float, const float>;

/// y += scale * x, by packs of k.
template <int k> __global__ void add_scaled(const Rows<k> tensors, const float *scale) {
  const auto [y, x, n, i] = tensors.of_thread();
  if (i >= n)
    return;
  auto y_pack = load<k>(y + i, n - i);
  const auto x_pack = load<k>(x + i, n - i);
  for (int j = 0; j < k; ++j)
    y_pack[j] += scale[0] * x_pack[j];
  store(y + i, y_pack, n - i);
}

/// Rows of all these lengths, one after the other at multiples of 16 bytes.
template <int k> void expectEachOnce(const std::vector<int64_t> &lengths) {
  std::vector<int64_t> begins;
  int64_t all = 0;
  for (int64_t n : lengths) {
    begins.push_back(all);
    all += (n + 3) / 4 * 4 + 4; // what lies between stays as it is
  }
  const auto x = randomValues<float>(all, 1), y = randomValues<float>(all, 2);
  std::vector<float> expected = y;
  for (size_t t = 0; t < lengths.size(); ++t)
    for (int64_t i = begins[t]; i < begins[t] + lengths[t]; ++i)
      expected[size_t(i)] += 2 * x[size_t(i)];
  underSeeds([&] {
    const OnDevice<float> from(x), to(y), scale({2});
    Rows<k> table;
    for (size_t t = 0; t < lengths.size(); ++t) {
      table.add({to.get() + begins[t], from.get() + begins[t], lengths[t]});
      if (table.isFull() || t + 1 == lengths.size()) {
        launch("add", add_scaled<k>, cover_blocks(table.blocks()), nullptr, table, in(scale.get(), 1));
        table = {};
      }
    }
    EXPECT_EQ(to.host(), expected);
  });
}

TEST(Tensors, EachElementIsVisitedOnce) {
  const std::vector<int64_t> lengths{1, 1024, 1025, 3, 0, 5000, 4};
  expectEachOnce<1>(lengths);
  expectEachOnce<4>(lengths);
  expectEachOnce<8>(lengths);
}

TEST(Tensors, MoreThanATableHolds) {
  std::vector<int64_t> lengths;
  for (int t = 0; t < 2 * Rows<4>::kMost + 1; ++t)
    lengths.push_back(t % 7 + 1);
  expectEachOnce<4>(lengths);
}

TEST(Tensors, ALaunchForAll) {
  underSeeds([&] {
    const OnDevice<float> a({1, 2, 3}), b({4, 5, 6, 7, 8}), x({1, 1, 1, 1, 1}), scale({10});
    launch_each("add", add_scaled<4>, nullptr, {{a.get(), x.get(), 3}, {b.get(), x.get(), 5}}, in(scale.get(), 1));
    EXPECT_EQ(a.host(), (std::vector<float>{11, 12, 13}));
    EXPECT_EQ(b.host(), (std::vector<float>{14, 15, 16, 17, 18}));
  });
}

/// The emulation knows what a table touches: rows that are const are read, the others written, too.
TEST(Tensors, AreDeclared) {
  float y[3], x[3];
  Rows<4> table;
  table.add({y, x, 3});
  const std::vector<host::Range> ranges = host::rangesOf(table);
  ASSERT_EQ(ranges.size(), 3u);
  EXPECT_EQ(ranges[0].begin, reinterpret_cast<const char *>(y));
  EXPECT_FALSE(ranges[0].writes);
  EXPECT_EQ(ranges[1].begin, reinterpret_cast<const char *>(y));
  EXPECT_TRUE(ranges[1].writes);
  EXPECT_EQ(ranges[2].begin, reinterpret_cast<const char *>(x));
  EXPECT_FALSE(ranges[2].writes);
  for (const host::Range &range : ranges)
    EXPECT_EQ(range.bytes, sizeof y);
}

} // namespace
} // namespace echelon::cuda
