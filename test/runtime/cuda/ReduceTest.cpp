// Sums on the device in two passes, and of rows that many threads share: near the CPU's, and the same bits each time.
#include "runtime/cuda/Reduce.h"
#include "OnDevice.h"
#include "UnderSeeds.h"
#include "runtime/kernels/Reduce.h"

namespace echelon::cuda {
namespace {

template <typename T> struct ReduceOnDevice : ::testing::Test {};
using Types = ::testing::Types<float, double, int32_t>;
TYPED_TEST_SUITE(ReduceOnDevice, Types);

/// Its sums, in one pass and in two, under every seed.
template <typename T> void compareSums(int64_t outer, int64_t n, int64_t inner) {
  SCOPED_TRACE(std::to_string(outer) + " " + std::to_string(n) + " " + std::to_string(inner));
  const auto x = randomValues<T>(outer * n * inner, 1, 100), y = randomValues<T>(outer * inner, 2, 100);
  auto expected = y;
  runtime::reduce_sum(expected.data(), x.data(), outer, n, inner, true);
  std::vector<std::vector<T>> all;
  const OnDevice<T> from(x);
  const OnDevice<double> scratch{std::vector<double>(kReduceScratch)};
  for (double *memory : {static_cast<double *>(nullptr), scratch.get()}) {
    all.clear();
    underSeeds([&] {
      const OnDevice<T> to(y);
      reduce_sum<T>(nullptr, to.get(), from.get(), outer, n, inner, true, memory);
      all.push_back(to.host());
    });
    // Sums of numbers of size 100: rounding is relative to these.
    expectNear(all[0], expected, std::is_integral_v<T> ? 0 : 1000 * tolerance<T>());
    for (const auto &again : all)
      EXPECT_EQ(again, all[0]);
  }
}

TYPED_TEST(ReduceOnDevice, SumsInPieces) {
  compareSums<TypeParam>(1, 300007, 1);
  compareSums<TypeParam>(1, 262144, 1); // whole packs
  compareSums<TypeParam>(3, 140001, 1);
  compareSums<TypeParam>(1, 9001, 33);
  compareSums<TypeParam>(2, 20000, 5);
}

// Many rows, one after the other and side by side.
TYPED_TEST(ReduceOnDevice, SumsOfManyRows) {
  compareSums<TypeParam>(700, 40, 1);
  compareSums<TypeParam>(3000, 7, 1);
  compareSums<TypeParam>(40, 9, 70);
}

// What is not finite comes out as on the CPU, in sums that are stored and not added.
TEST(SumsOnDevice, BadValuesAreSeen) {
  const float inf = std::numeric_limits<float>::infinity(), nan = std::numeric_limits<float>::quiet_NaN();
  underSeeds([&] {
    for (int64_t n : {7, 20, 2000})
      for (auto [a, b] : {std::pair(inf, 1.0f), {inf, -inf}, {-inf, 2.0f}, {nan, 1.0f}}) {
        std::vector<float> x(n, 1), y(1);
        x[3] = a, x[n - 1] = b;
        runtime::reduce_sum(y.data(), x.data(), 1, n, 1);
        const OnDevice<float> from(x), to(y);
        reduce_sum<float>(nullptr, to.get(), from.get(), 1, n, 1);
        expectNear(to.host(), y, 0);
      }
  });
}

} // namespace
} // namespace echelon::cuda
