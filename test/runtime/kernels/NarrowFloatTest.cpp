// bf16 and fp16: to the nearest, ties to even, with infinities, NaN and subnormals; and back exactly.
#include "runtime/transport/NarrowFloat.h"
#include "runtime/kernels/Copy.h"
#include "runtime/kernels/Elementwise.h"
#include "gtest/gtest.h"
#include <cmath>
#include <limits>
#include <vector>

namespace echelon::runtime {
namespace {

template <typename N> struct NarrowFloat : ::testing::Test {};
using NarrowTypes = ::testing::Types<bf16, fp16>;
TYPED_TEST_SUITE(NarrowFloat, NarrowTypes);

template <typename N> N ofBits(int bits) {
  N x;
  x.bits = static_cast<uint16_t>(bits);
  return x;
}

TYPED_TEST(NarrowFloat, IsItselfAfterAFloat) {
  for (int bits = 0; bits < 65536; ++bits) {
    const auto x = ofBits<TypeParam>(bits);
    const float wide = x;
    if (std::isnan(wide))
      EXPECT_TRUE(std::isnan(float(TypeParam(wide)))) << bits;
    else
      EXPECT_EQ(TypeParam(wide).bits, bits);
  }
}

// Between two neighbours: the nearer one, in the middle the even one.
TYPED_TEST(NarrowFloat, RoundsToTheNearestTiesToEven) {
  for (int bits = 0; bits < 0x7fff; ++bits) {
    const float low = ofBits<TypeParam>(bits), high = ofBits<TypeParam>(bits + 1);
    if (!std::isfinite(high))
      continue;
    const float middle = low + (high - low) / 2;
    EXPECT_EQ(TypeParam(middle).bits, bits % 2 ? bits + 1 : bits) << low;
    EXPECT_EQ(TypeParam(std::nextafter(middle, 0.0f)).bits, bits) << low;
    EXPECT_EQ(TypeParam(std::nextafter(middle, INFINITY)).bits, bits + 1) << low;
    EXPECT_EQ(float(TypeParam(-middle)), -float(TypeParam(middle)));
  }
}

TEST(NarrowFloat, EndsOfTheRange) {
  EXPECT_EQ(float(fp16(65504.0f)), 65504.0f);
  EXPECT_EQ(float(fp16(65519.0f)), 65504.0f);
  EXPECT_EQ(float(fp16(65520.0f)), INFINITY); // the middle to what would be 2^16
  EXPECT_EQ(float(fp16(1e30f)), INFINITY);
  EXPECT_EQ(float(fp16(std::ldexp(1.0f, -24))), std::ldexp(1.0f, -24)); // the least subnormal
  EXPECT_EQ(float(fp16(std::ldexp(1.0f, -25))), 0.0f);
  EXPECT_EQ(float(bf16(std::numeric_limits<float>::max())), INFINITY);
  EXPECT_EQ(float(bf16(257.0f)), 256.0f);
  EXPECT_TRUE(std::signbit(float(fp16(-0.0f))));
  for (float nan : {NAN, -NAN, __builtin_bit_cast(float, 0x7f800001)}) {
    EXPECT_TRUE(std::isnan(float(bf16(nan))));
    EXPECT_TRUE(std::isnan(float(fp16(nan))));
  }
}

TYPED_TEST(NarrowFloat, IsCopiedFilledAndSelected) {
  using N = TypeParam;
  std::vector<N> x(20 * 30), y(x.size());
  for (size_t i = 0; i < x.size(); ++i)
    x[i] = N(float(i % 200));
  copy_strided(y.data(), {20, 1}, x.data(), {1, 30}, {30, 20}); // transposed
  for (int i = 0; i < 30; ++i)
    for (int j = 0; j < 20; ++j)
      EXPECT_EQ(float(y[size_t(i * 20 + j)]), float(x[size_t(j * 30 + i)]));
  fill(y.data(), 7, N(1.5f));
  EXPECT_EQ(float(y[6]), 1.5f);
  EXPECT_EQ(float(math::select(true, N(2.0f), N(3.0f))), 2.0f);
  EXPECT_EQ(float(math::select(false, N(2.0f), N(3.0f))), 3.0f);
}

} // namespace
} // namespace echelon::runtime
