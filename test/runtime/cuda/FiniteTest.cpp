// Sums of squares on the device: of every type, in one block and in several, the same bits each time.
#include "runtime/cuda/Finite.h"
#include "OnDevice.h"
#include "UnderSeeds.h"
#include "runtime/kernels/Check.h"

namespace echelon::cuda {
namespace {

template <typename T> struct FiniteOnDevice : ::testing::Test {};
using Types = ::testing::Types<float, double, bf16, fp16>;
TYPED_TEST_SUITE(FiniteOnDevice, Types);

TYPED_TEST(FiniteOnDevice, SquaresEqualTheCpu) {
  using T = TypeParam;
  const OnDevice<double> scratch{std::vector<double>(kSquaresScratch)};
  for (int64_t n : {0, 1, 7, 1000, 32768, 40003, 200000})
    for (int64_t shift : {0, 1}) { // at odd places, too
      const auto x = randomValues<T>(n + shift, 1);
      const std::vector<double> wide(x.begin() + shift, x.end());
      const double expected = runtime::sum_of_squares(wide.data(), n);
      std::vector<double> all;
      underSeeds([&] {
        const OnDevice<T> from(x);
        const OnDevice<double> sum({7}), added({7});
        sum_of_squares<T>(nullptr, sum.get(), from.get() + shift, n, scratch.get());
        add_squares<T>(nullptr, added.get(), from.get() + shift, n, 0.5, scratch.get());
        expectNear(added.host(), std::vector<double>{7 + 0.5 * expected}, 1e-12);
        all.push_back(sum.host()[0]);
      });
      expectNear(all, std::vector<double>(all.size(), expected), 1e-12);
      EXPECT_EQ(all, std::vector<double>(all.size(), all[0]));
    }
}

/// Of many tensors at once, each with its weight; the first that breaks the sum is named, and only where none was.
TYPED_TEST(FiniteOnDevice, SquaresOfManyTensors) {
  using T = TypeParam;
  const std::vector<int64_t> lengths{1000, 1, 0, 40003, 7, 16384};
  for (int broken : {-1, 0, 3})
    for (int32_t before : {0, 2}) {
      std::vector<std::vector<T>> all;
      double expected = 7;
      for (size_t t = 0; t < lengths.size(); ++t) {
        all.push_back(randomValues<T>(lengths[t], int(t)));
        if (int(t) == broken)
          all[t].back() = T(std::numeric_limits<float>::infinity());
        const std::vector<double> wide(all[t].begin(), all[t].end());
        expected += 0.5 * double(t) * runtime::sum_of_squares(wide.data(), lengths[t]);
      }
      std::vector<double> sums;
      underSeeds([&] {
        std::vector<OnDevice<T>> memory;
        std::vector<Squared<T>> squared;
        for (size_t t = 0; t < lengths.size(); ++t) {
          memory.emplace_back(all[t]);
          squared.push_back({memory[t].get(), lengths[t], 0.5 * double(t)});
        }
        const OnDevice<double> sum({7}), scratch{std::vector<double>(size_t(squares_scratch(squared)))};
        const OnDevice<Health> health({{0, before}});
        add_squares<T>(nullptr, sum.get(), squared, health.get(), 5, scratch.get());
        if (broken < 0)
          expectNear(sum.host(), std::vector<double>{expected}, 1e-12);
        sums.push_back(sum.host()[0]);
        EXPECT_EQ(health.host()[0].firstBroken, before > 0 ? before : broken < 0 ? 0 : 5 + broken);
        EXPECT_EQ(health.host()[0].isBroken, 0);
      });
      if (broken < 0) {
        EXPECT_EQ(sums, std::vector<double>(sums.size(), sums[0]));
      }
    }
}

} // namespace
} // namespace echelon::cuda
