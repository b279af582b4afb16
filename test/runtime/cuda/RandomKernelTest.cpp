// Random numbers on the device against the CPU's: bits where they are uniform, rounding where they are normal.
#include "OnDevice.h"
#include "UnderSeeds.h"
#include "runtime/cuda/Random.h"
#include "test/runtime/kernels/Values.h"

namespace echelon::cuda {
namespace {

template <typename T> struct RandomKernel : ::testing::Test {};
TYPED_TEST_SUITE(RandomKernel, runtime::Types);

template <typename T> void compare(std::vector<SliceAxis> axes, int64_t batchOffset = 0) {
  const uint64_t seed = 42, path = path_hash("layer.dropout"), step = 0x123456789abcull;
  std::vector<runtime::SliceAxis> there;
  int64_t count = 1;
  for (const SliceAxis &axis : axes) {
    there.push_back({axis.size, axis.offset + (axis.fromBatch ? batchOffset : 0), axis.stride});
    count *= axis.size;
  }
  OnDevice<uint64_t> onStep(std::vector<uint64_t>{step});
  OnDevice<int64_t> onOffset(std::vector<int64_t>{batchOffset});
  for (auto [kind, a, b] : std::vector<std::tuple<Distribution, double, double>>{
           {Distribution::Uniform, -0.3, 1.7}, {Distribution::Keep, 0.7, 1 / 0.7}, {Distribution::Normal, 0, 1.5}}) {
    std::vector<T> expected(count);
    runtime::fill_random(expected.data(), runtime::RandomKey{seed, path, step}, kind, a, b, there.data(),
                         static_cast<int>(there.size()));
    OnDevice<T> to(std::vector<T>(count, T(9)));
    fill_random(nullptr, to.get(), onStep.get(), seed, path, kind, a, b, axes.data(), static_cast<int>(axes.size()),
                onOffset.get());
    const std::vector<T> actual = to.host();
    if (kind != Distribution::Normal) {
      EXPECT_EQ(actual, expected);
      continue;
    }
    const double rounding = sizeof(T) == 4 ? 6e-8 : 1e-15;
    for (int64_t i = 0; i < count; ++i)
      ASSERT_LE(std::abs(double(actual[i]) - double(expected[i])), rounding * std::abs(double(expected[i]))) << i;
  }
}

TYPED_TEST(RandomKernel, EqualsTheCpu) {
  using T = TypeParam;
  underSeeds([] {
    compare<T>({});
    compare<T>({{1, 0, 1}});
    compare<T>({{1001, 0, 1}});
    compare<T>({{37, 3, 1}});                                         // begins and ends within blocks
    compare<T>({{4, 2, 77}, {7, 0, 11}, {11, 0, 1}});                 // trailing axes that are whole
    compare<T>({{4, 2, 77}, {3, 2, 11}, {5, 6, 1}});                  // and that are not
    compare<T>({{6, 0, 1}, {5, 1, 6}});                               // stored across the logical order
    compare<T>({{3, int64_t(1) << 40, int64_t(1) << 20}, {6, 0, 1}}); // indices beyond 32 bits
    compare<T>({{0, 0, 1}});
    compare<T>({{3, 5, 14, true}, {7, 0, 2}, {2, 0, 1}}, 96); // micro batches before this one
  });
}

// No step and no offset: those of start values.
TEST(RandomKernelStart, NullIsZero) {
  std::vector<float> expected(10);
  const SliceAxis axes[] = {{10, 0, 1, true}};
  const runtime::SliceAxis there[] = {{10, 0, 1}};
  runtime::fill_random(expected.data(), runtime::RandomKey{1, 2, 0}, Distribution::Uniform, 0, 1, there);
  OnDevice<float> to(std::vector<float>(10));
  fill_random(nullptr, to.get(), nullptr, 1, 2, Distribution::Uniform, 0, 1, axes);
  EXPECT_EQ(to.host(), expected);
}

} // namespace
} // namespace echelon::cuda
