// Strided copies against nested loops, over orders of dimensions and sizes around the block sizes.
#include "runtime/kernels/Copy.h"
#include "Values.h"
#include <numeric>

namespace echelon::runtime {
namespace {

template <typename T> struct Copy : ::testing::Test {};
using CopyTypes = ::testing::Types<float, double, int32_t>;
TYPED_TEST_SUITE(Copy, CopyTypes);

/// Strides of a dense tensor whose dimension order[0] is slowest.
std::vector<int64_t> stridesIn(const std::vector<int64_t> &sizes, const std::vector<int> &order) {
  std::vector<int64_t> strides(sizes.size());
  int64_t step = 1;
  for (int d = static_cast<int>(order.size()) - 1; d >= 0; --d)
    strides[order[d]] = step, step *= sizes[order[d]];
  return strides;
}

template <typename T>
void run(bool add, T *dst, const int64_t *to, const T *src, const int64_t *from, const int64_t *sizes, int rank) {
  if (add)
    add_strided(dst, to, src, from, sizes, rank);
  else
    copy_strided(dst, to, src, from, sizes, rank);
}

template <typename T> void compareAllOrders(const std::vector<int64_t> &sizes) {
  int rank = static_cast<int>(sizes.size());
  std::vector<int> order(rank), plain(rank);
  std::iota(order.begin(), order.end(), 0);
  std::iota(plain.begin(), plain.end(), 0);
  int64_t n = std::accumulate(sizes.begin(), sizes.end(), int64_t(1), std::multiplies<int64_t>());
  std::vector<T> src(n), start(n);
  std::iota(src.begin(), src.end(), T(1));
  std::iota(start.begin(), start.end(), T(1000));
  do
    for (bool add : {false, true}) {
      auto to = stridesIn(sizes, plain), from = stridesIn(sizes, order);
      auto actual = start, expected = start;
      run<T>(add, actual.data(), to.data(), src.data(), from.data(), sizes.data(), rank);
      reference::copy_strided(expected.data(), to.data(), src.data(), from.data(), sizes.data(), rank, add);
      ASSERT_EQ(actual, expected);
      actual = expected = start;
      run<T>(add, actual.data(), from.data(), src.data(), to.data(), sizes.data(), rank);
      reference::copy_strided(expected.data(), from.data(), src.data(), to.data(), sizes.data(), rank, add);
      ASSERT_EQ(actual, expected);
    }
  while (std::next_permutation(order.begin(), order.end()));
}

// Every order of the dimensions, in copies and in sums.
TYPED_TEST(Copy, PermutesDimensions) {
  compareAllOrders<TypeParam>({});
  compareAllOrders<TypeParam>({7});
  compareAllOrders<TypeParam>({1, 9});
  compareAllOrders<TypeParam>({70, 67});
  compareAllOrders<TypeParam>({40, 300});
  compareAllOrders<TypeParam>({5, 51, 3}); // few columns
  compareAllOrders<TypeParam>({51, 2});
  compareAllOrders<TypeParam>({51, 4});
  compareAllOrders<TypeParam>({8, 16});
  compareAllOrders<TypeParam>({3, 17, 9});
  compareAllOrders<TypeParam>({3, 17, 8});
  compareAllOrders<TypeParam>({3, 40, 16, 9}); // columns along two dimensions
  compareAllOrders<TypeParam>({2, 3, 1, 5});
  compareAllOrders<TypeParam>({2, 9, 8, 11});
  compareAllOrders<TypeParam>({2, 1, 3, 2, 2});
}

/// A target of more than the cache, on a border of 64 bytes, from a source whose dimension order[0] is slowest.
void compareLarge(const std::vector<int64_t> &sizes, const std::vector<int> &order) {
  const int rank = static_cast<int>(sizes.size());
  std::vector<int> plain(rank);
  std::iota(plain.begin(), plain.end(), 0);
  const int64_t n = std::accumulate(sizes.begin(), sizes.end(), int64_t(1), std::multiplies<int64_t>());
  std::vector<int32_t> src(n), memory(n + 16, -1), expected(n);
  std::iota(src.begin(), src.end(), 1);
  int32_t *actual = memory.data() + (-reinterpret_cast<uintptr_t>(memory.data()) & 63) / 4;
  auto to = stridesIn(sizes, plain), from = stridesIn(sizes, order);
  copy_strided(actual, to.data(), src.data(), from.data(), sizes.data(), rank);
  reference::copy_strided(expected.data(), to.data(), src.data(), from.data(), sizes.data(), rank, false);
  EXPECT_TRUE(std::equal(expected.begin(), expected.end(), actual));
}

// Past the cache: a transpose through a buffer and line by line, with columns along one dimension and two; pieces of
// rows.
TEST(CopyPastTheCache, Permutes) {
  compareLarge({1024, 8192}, {1, 0});
  compareLarge({24, 350016}, {1, 0});
  compareLarge({24, 21, 16672}, {2, 1, 0});
  compareLarge({4, 64, 64, 520}, {0, 2, 1, 3});
}

// A window out of a larger tensor into another one leaves the rest alone.
TYPED_TEST(Copy, CopiesWindows) {
  using T = TypeParam;
  std::vector<T> src(20 * 30), actual(25 * 40, T(7));
  std::iota(src.begin(), src.end(), T(0));
  auto expected = actual;
  copy_strided(actual.data() + 43, {40, 1}, src.data() + 5, {30, 1}, {10, 20});
  for (int i = 0; i < 10; ++i)
    for (int j = 0; j < 20; ++j)
      expected[43 + i * 40 + j] = src[5 + i * 30 + j];
  EXPECT_EQ(actual, expected);
}

// A source stride of 0 repeats; a target stride of 0 sums; an empty box does nothing.
TYPED_TEST(Copy, BroadcastsAndSums) {
  using T = TypeParam;
  std::vector<T> row = {1, 2, 3}, wide(6), sum(3, T(10)), total(2, T(0));
  copy_strided(wide.data(), {3, 1}, row.data(), {0, 1}, {2, 3});
  EXPECT_EQ(wide, (std::vector<T>{1, 2, 3, 1, 2, 3}));
  add_strided(sum.data(), {0, 1}, wide.data(), {3, 1}, {2, 3});
  EXPECT_EQ(sum, (std::vector<T>{12, 14, 16}));
  add_strided(total.data(), {1, 0}, wide.data(), {3, 1}, {2, 3});
  EXPECT_EQ(total, (std::vector<T>{6, 6}));
  copy_strided(wide.data(), {3, 1}, row.data(), {0, 1}, {0, 3});
  EXPECT_EQ(wide, (std::vector<T>{1, 2, 3, 1, 2, 3}));
}

TYPED_TEST(Copy, Fills) {
  using T = TypeParam;
  std::vector<T> x(12, T(0));
  fill(x.data() + 1, 3, T(5));
  int64_t strides[] = {4, 1}, sizes[] = {2, 2};
  fill_strided(x.data() + 4, strides, sizes, 2, T(9));
  EXPECT_EQ(x, (std::vector<T>{0, 5, 5, 5, 9, 9, 0, 0, 9, 9, 0, 0}));
}

// Booleans are bytes.
TEST(CopyBytes, Transposes) {
  std::vector<uint8_t> src(10 * 12), dst(src.size());
  std::iota(src.begin(), src.end(), uint8_t(0));
  copy_strided(dst.data(), {10, 1}, src.data(), {1, 12}, {12, 10});
  for (int i = 0; i < 12; ++i)
    for (int j = 0; j < 10; ++j)
      ASSERT_EQ(dst[i * 10 + j], src[j * 12 + i]);
}

} // namespace
} // namespace echelon::runtime
