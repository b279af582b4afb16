// Pools on the device against the CPU's.
#include "OnDevice.h"
#include "UnderSeeds.h"
#include "runtime/cuda/Pool.h"
#include "test/runtime/kernels/Values.h"

namespace echelon::cuda {
namespace {

using runtime::expectClose;
using runtime::values;

template <typename T> struct PoolKernel : ::testing::Test {};
TYPED_TEST_SUITE(PoolKernel, runtime::Types);

template <typename T> void compare(const PoolShape &shape, bool ties = false) {
  int64_t ins = shape.planes, outs = shape.planes;
  for (int k = 0; k < shape.rank; ++k)
    ins *= shape.dims[k].in, outs *= shape.dims[k].out();
  auto x = values<T>(ins, 1), dy = values<T>(outs, 2);
  if (ties)
    for (size_t i = 0; i < x.size(); ++i)
      x[i] = i % 11 == 5 ? std::numeric_limits<T>::quiet_NaN() : i % 3 == 0 ? T(1) : T(0);
  std::vector<T> y(outs), mean(outs), dx(ins), dMean(ins);
  std::vector<int32_t> index(outs);
  runtime::maxpool(y.data(), index.data(), x.data(), shape);
  runtime::maxpool_grad(dx.data(), dy.data(), index.data(), shape);
  OnDevice<T> onX(x), onDy(dy), onY(std::vector<T>(outs, T(9))), onDx(std::vector<T>(ins, T(9)));
  OnDevice<int32_t> onIndex(std::vector<int32_t>(outs, -5));
  maxpool(nullptr, onY.get(), onIndex.get(), onX.get(), shape);
  EXPECT_EQ(onIndex.host(), index);
  const std::vector<T> top = onY.host();
  for (int64_t o = 0; o < outs; ++o)
    EXPECT_TRUE(top[o] == y[o] || (top[o] != top[o] && y[o] != y[o])) << o;
  maxpool(nullptr, onY.get(), nullptr, onX.get(), shape);
  maxpool_grad(nullptr, onDx.get(), onDy.get(), onIndex.get(), shape);
  expectClose(onDx.host(), dx, "dx of maximum");
  if (ties)
    return;
  runtime::avgpool(mean.data(), x.data(), shape);
  runtime::avgpool_grad(dMean.data(), dy.data(), shape);
  avgpool(nullptr, onY.get(), onX.get(), shape);
  avgpool_grad(nullptr, onDx.get(), onDy.get(), shape);
  expectClose(onY.host(), mean, "mean");
  expectClose(onDx.host(), dMean, "dx of mean");
}

// One to four dimensions; windows that tile x, overlap, leave gaps and rests; padding.
TYPED_TEST(PoolKernel, EqualsTheCpu) {
  using T = TypeParam;
  underSeeds([] {
    compare<T>({3, 1, {{11, 3, 2, 0, 0}}});
    compare<T>({2, 2, {{8, 2, 2, 0, 0}, {9, 2, 2, 0, 0}}});
    compare<T>({2, 2, {{7, 3, 2, 1, 1}, {6, 3, 1, 1, 0}}});
    compare<T>({2, 2, {{9, 2, 4, 0, 0}, {5, 2, 3, 1, 1}}});
    compare<T>({1, 3, {{4, 2, 1, 0, 0}, {5, 3, 2, 1, 1}, {6, 2, 2, 0, 0}}});
    compare<T>({2, 4, {{3, 2, 1, 0, 0}, {4, 2, 2, 0, 0}, {3, 3, 1, 1, 1}, {4, 2, 1, 1, 0}}});
    compare<T>({0, 1, {{4, 2, 2, 0, 0}}});
  });
}

// The lowest of equals, and NaN before all.
TYPED_TEST(PoolKernel, TiesAndNan) {
  underSeeds([] { compare<TypeParam>({2, 2, {{7, 3, 2, 1, 1}, {6, 3, 1, 1, 0}}}, true); });
}

} // namespace
} // namespace echelon::cuda
