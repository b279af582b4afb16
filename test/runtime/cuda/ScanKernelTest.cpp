// Running sums, the k largest, and Gram-Schmidt on the device against the CPU's.
#include "OnDevice.h"
#include "UnderSeeds.h"
#include "runtime/cuda/Orthogonalize.h"
#include "runtime/cuda/Scan.h"
#include "runtime/kernels/Orthogonalize.h"
#include "runtime/kernels/Scan.h"
#include "test/runtime/kernels/Values.h"

namespace echelon::cuda {
namespace {

using runtime::expectClose;
using runtime::values;

template <typename T> std::vector<T> numbers(int64_t n, int seed) {
  if constexpr (std::is_integral_v<T>)
    return runtime::labels(n, 9, seed);
  else
    return values<T>(n, seed);
}

using Numbers = ::testing::Types<float, double, int32_t>;
template <typename T> struct ScanKernel : ::testing::Test {};
TYPED_TEST_SUITE(ScanKernel, Numbers);

// Columns for a thread, and for a block in several pieces; in place, too.
TYPED_TEST(ScanKernel, RunningSums) {
  using T = TypeParam;
  underSeeds([] {
    for (auto [outer, n, inner] : std::vector<std::array<int64_t, 3>>{
             {3, 1, 5}, {2, 20, 3}, {2, 100, 1}, {2, 1300, 3}, {1, 33, 4100}, {0, 4, 4}, {2, 0, 3}})
      for (bool reverse : {false, true}) {
        const auto x = numbers<T>(outer * n * inner, 1);
        std::vector<T> expected(x.size());
        runtime::cumsum(expected.data(), x.data(), outer, n, inner, reverse);
        OnDevice<T> from(x), to(std::vector<T>(x.size(), T(9)));
        cumsum(nullptr, to.get(), static_cast<const T *>(from.get()), outer, n, inner, reverse);
        expectClose(to.host(), expected, "y");
        cumsum(nullptr, from.get(), static_cast<const T *>(from.get()), outer, n, inner, reverse);
        expectClose(from.host(), expected, "in place");
      }
  });
}

// Many equals (integers), NaN, infinities; columns for a warp and for a block.
TYPED_TEST(ScanKernel, TopK) {
  using T = TypeParam;
  underSeeds([] {
    for (auto [outer, n, inner, k] : std::vector<std::array<int64_t, 4>>{
             {3, 1, 2, 1}, {2, 7, 3, 7}, {2, 50, 1, 4}, {1, 1100, 2, 5}, {0, 4, 4, 2}}) {
      auto x = numbers<T>(outer * n * inner, 1);
      if constexpr (!std::is_integral_v<T>)
        if (x.size() > 60) {
          x[3] = x[40] = std::numeric_limits<T>::quiet_NaN();
          x[8] = -std::numeric_limits<T>::infinity();
          x[17] = std::numeric_limits<T>::infinity();
        }
      std::vector<int32_t> expected(outer * k * inner);
      runtime::top_k(expected.data(), x.data(), outer, n, inner, k);
      OnDevice<T> from(x);
      OnDevice<int32_t> to(std::vector<int32_t>(expected.size(), -3));
      top_k(nullptr, to.get(), static_cast<const T *>(from.get()), outer, n, inner, k);
      EXPECT_EQ(to.host(), expected);
    }
  });
}

template <typename T> struct OrthogonalizeKernel : ::testing::Test {};
TYPED_TEST_SUITE(OrthogonalizeKernel, runtime::Types);

// Of the third vector nothing is left.
TYPED_TEST(OrthogonalizeKernel, EqualsTheCpu) {
  using T = TypeParam;
  underSeeds([] {
    for (auto [outer, n, inner] :
         std::vector<std::array<int64_t, 3>>{{1, 1, 1}, {2, 9, 4}, {3, 700, 3}, {0, 5, 2}, {2, 0, 3}}) {
      auto x = values<T>(outer * n * inner, 1);
      if (inner == 4)
        for (int64_t i = 0; i < outer * n; ++i)
          x[i * inner + 2] = T(2) * x[i * inner];
      std::vector<T> expected(x.size());
      runtime::orthogonalize(expected.data(), x.data(), outer, n, inner);
      OnDevice<T> from(x), to(std::vector<T>(x.size(), T(9)));
      orthogonalize(nullptr, to.get(), static_cast<const T *>(from.get()), outer, n, inner);
      expectClose(to.host(), expected, "y");
      orthogonalize(nullptr, from.get(), static_cast<const T *>(from.get()), outer, n, inner);
      expectClose(from.host(), expected, "in place");
    }
  });
}

} // namespace
} // namespace echelon::cuda
