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

} // namespace
} // namespace echelon::cuda
