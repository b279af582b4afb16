// Strided copies, sums and fills on the device against the CPU's: every order of dimensions, and windows.
#include "runtime/cuda/Copy.h"
#include "OnDevice.h"
#include "UnderSeeds.h"
#include "runtime/kernels/Copy.h"

#include <numeric>

namespace echelon::cuda {
namespace {

template <typename T> struct CopyOnDevice : ::testing::Test {};
using Types = ::testing::Types<float, double, int32_t>;
TYPED_TEST_SUITE(CopyOnDevice, Types);

/// Strides of a dense tensor whose dimension order[0] is slowest.
std::vector<int64_t> stridesIn(const std::vector<int64_t> &sizes, const std::vector<int> &order) {
  std::vector<int64_t> strides(sizes.size());
  int64_t step = 1;
  for (int d = static_cast<int>(order.size()) - 1; d >= 0; --d)
    strides[order[d]] = step, step *= sizes[order[d]];
  return strides;
}
/// 1, 2, 3, …
template <typename T> std::vector<T> upFrom(T first, int64_t n) {
  std::vector<T> x(n);
  std::iota(x.begin(), x.end(), first);
  return x;
}

template <typename T> void compareAllOrders(const std::vector<int64_t> &sizes) {
  const int rank = static_cast<int>(sizes.size());
  std::vector<int> order(rank), plain(rank);
  std::iota(order.begin(), order.end(), 0);
  std::iota(plain.begin(), plain.end(), 0);
  const int64_t n = std::accumulate(sizes.begin(), sizes.end(), int64_t(1), std::multiplies<int64_t>());
  const auto src = upFrom<T>(1, n), start = upFrom<T>(1000, n);
  const OnDevice<T> from(src);
  const auto to = stridesIn(sizes, plain);
  do
    for (bool adds : {false, true}) {
      const auto of = stridesIn(sizes, order);
      auto expected = start;
      const OnDevice<T> dst(start);
      if (adds) {
        runtime::add_strided(expected.data(), to.data(), src.data(), of.data(), sizes.data(), rank);
        add_strided<T>(nullptr, dst.get(), to.data(), from.get(), of.data(), sizes.data(), rank);
      } else {
        runtime::copy_strided(expected.data(), to.data(), src.data(), of.data(), sizes.data(), rank);
        copy_strided<T>(nullptr, dst.get(), to.data(), from.get(), of.data(), sizes.data(), rank);
      }
      ASSERT_EQ(dst.host(), expected);
    }
  while (std::next_permutation(order.begin(), order.end()));
}

TYPED_TEST(CopyOnDevice, PermutesDimensions) {
  underSeeds([] {
    compareAllOrders<TypeParam>({});
    compareAllOrders<TypeParam>({1, 9});
    compareAllOrders<TypeParam>({70, 67});
    compareAllOrders<TypeParam>({5, 51, 3});
    compareAllOrders<TypeParam>({3, 17, 9});
    compareAllOrders<TypeParam>({2, 9, 8, 11});
    compareAllOrders<TypeParam>({2, 1, 3, 2, 2});
  });
}

// A window out of a larger tensor into another one leaves the rest alone; into the same one, too.
TYPED_TEST(CopyOnDevice, CopiesWindows) {
  using T = TypeParam;
  underSeeds([] {
    const auto src = upFrom<T>(0, 20 * 30);
    auto expected = std::vector<T>(25 * 40, T(7)), moved = src;
    const OnDevice<T> from(src), to(expected);
    copy_strided<T>(nullptr, to.get() + 43, {40, 1}, from.get() + 5, {30, 1}, {10, 20});
    runtime::copy_strided<T>(expected.data() + 43, {40, 1}, src.data() + 5, {30, 1}, {10, 20});
    EXPECT_EQ(to.host(), expected);
    copy_strided<T>(nullptr, from.get() + 16, {30, 1}, from.get(), {30, 1}, {20, 14});
    runtime::copy_strided<T>(moved.data() + 16, {30, 1}, src.data(), {30, 1}, {20, 14});
    EXPECT_EQ(from.host(), moved);
  });
}

// Sums of floats that round: the same bits each time, near the CPU's.
TYPED_TEST(CopyOnDevice, SumsRepeat) {
  using T = TypeParam;
  struct Sum {
    std::vector<int64_t> sizes, dst, src;
  };
  for (const Sum &of : {Sum{{300, 70}, {0, 1}, {70, 1}},             // columns
                        Sum{{70, 300}, {1, 0}, {300, 1}},            // rows
                        Sum{{6, 50, 70}, {0, 1, 0}, {3500, 70, 1}},  // around a dimension
                        Sum{{6, 50, 70}, {70, 0, 1}, {3500, 70, 1}}, // within
                        Sum{{3, 40, 50}, {0, 1, 0}, {1, 150, 3}}}) { // last of the source, and beyond
    int64_t n = 1, m = 1;
    for (size_t d = 0; d < of.sizes.size(); ++d)
      n *= of.sizes[d], m += (of.sizes[d] - 1) * of.dst[d];
    const auto x = randomValues<T>(n, 1, std::is_integral_v<T> ? 50 : 1), y = randomValues<T>(m, 2);
    auto expected = y;
    const int rank = static_cast<int>(of.sizes.size());
    runtime::add_strided(expected.data(), of.dst.data(), x.data(), of.src.data(), of.sizes.data(), rank);
    std::vector<std::vector<T>> all;
    underSeeds([&] {
      const OnDevice<T> from(x), to(y);
      add_strided<T>(nullptr, to.get(), of.dst.data(), from.get(), of.src.data(), of.sizes.data(), rank);
      all.push_back(to.host());
    });
    expectNear(all[0], expected, 10 * tolerance<T>());
    for (const auto &again : all)
      EXPECT_EQ(again, all[0]);
  }
}

} // namespace
} // namespace echelon::cuda
