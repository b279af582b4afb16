#include "runtime/random/Philox.h"

#include <gtest/gtest.h>

#include <cmath>
#include <vector>

using namespace echelon::runtime;

namespace {

void expectBlock(PhiloxBlock counter, uint32_t key0, uint32_t key1, PhiloxBlock expected) {
  const PhiloxBlock got = philox4x32(counter, key0, key1);
  for (int i = 0; i < 4; ++i)
    EXPECT_EQ(got.word[i], expected.word[i]) << "word " << i;
}

// The known answers that the paper's authors publish for philox4x32 with 10 rounds (Random123, kat_vectors).
TEST(Philox, KnownAnswers) {
  expectBlock({{0, 0, 0, 0}}, 0, 0, {{0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8}});
  expectBlock({{~0u, ~0u, ~0u, ~0u}}, ~0u, ~0u, {{0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd}});
  expectBlock({{0x243f6a88, 0x85a308d3, 0x13198a2e, 0x03707344}}, 0xa4093822, 0x299f31d0,
              {{0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1}});
}

const RandomKey kKey = {1337, path_hash("layer.attn.wq"), 0};

// Any slice of a (5, 7, 6) tensor holds the values that the whole tensor holds there, in any storage order.
TEST(FillRandom, SliceEqualsWhole) {
  for (Distribution kind : {Distribution::Normal, Distribution::Uniform}) {
    std::vector<float> whole(5 * 7 * 6);
    fill_random(whole.data(), kKey, kind, 0.5, 2.0, {{5, 0, 42}, {7, 0, 6}, {6, 0, 1}});
    std::vector<float> slice(2 * 3 * 4);
    fill_random(slice.data(), kKey, kind, 0.5, 2.0, {{2, 3, 42}, {3, 1, 6}, {4, 2, 1}});
    for (int i = 0; i < 2; ++i)
      for (int j = 0; j < 3; ++j)
        for (int k = 0; k < 4; ++k)
          EXPECT_EQ(slice[(i * 3 + j) * 4 + k], whole[(i + 3) * 42 + (j + 1) * 6 + k + 2]);
    std::vector<float> turned(6 * 5 * 7);
    fill_random(turned.data(), kKey, kind, 0.5, 2.0, {{6, 0, 1}, {5, 0, 42}, {7, 0, 6}});
    for (int i = 0; i < 5; ++i)
      for (int j = 0; j < 7; ++j)
        for (int k = 0; k < 6; ++k)
          EXPECT_EQ(turned[(k * 5 + i) * 7 + j], whole[i * 42 + j * 6 + k]);
  }
}

// A float value is the double value rounded, and single values are the tensor's.
TEST(FillRandom, FloatIsRoundedDouble) {
  std::vector<double> d(1001);
  std::vector<float> f(1001);
  for (Distribution kind : {Distribution::Normal, Distribution::Uniform}) {
    fill_random(d.data(), kKey, kind, 0, 1, {{1001, 0, 1}});
    fill_random(f.data(), kKey, kind, 0, 1, {{1001, 0, 1}});
    for (size_t i = 0; i < d.size(); ++i) {
      EXPECT_EQ(f[i], float(d[i]));
      EXPECT_EQ(d[i], kind == Distribution::Normal ? normal_at(kKey, i) : uniform_at(kKey, i));
    }
  }
}

// A scalar (no axes) is the value of index 0; an empty slice writes nothing.
TEST(FillRandom, ScalarAndEmpty) {
  double x = 0;
  fill_random(&x, kKey, Distribution::Normal, 0, 1, nullptr, 0);
  EXPECT_EQ(x, normal_at(kKey, 0));
  double untouched = 7;
  fill_random(&untouched, kKey, Distribution::Normal, 0, 1, {{0, 3, 1}});
  EXPECT_EQ(untouched, 7);
}

// Mean, variance and fourth moment of a million normals; mean and range of uniforms; another path, seed or step is
// another, uncorrelated stream.
TEST(FillRandom, Moments) {
  const int64_t n = 1 << 20;
  std::vector<double> x(n), y(n);
  fill_random(x.data(), kKey, Distribution::Normal, 0, 1, {{n, 0, 1}});
  double m1 = 0, m2 = 0, m4 = 0;
  for (double v : x)
    m1 += v / n, m2 += v * v / n, m4 += v * v * v * v / n;
  EXPECT_NEAR(m1, 0, 5e-3);
  EXPECT_NEAR(m2, 1, 1e-2);
  EXPECT_NEAR(m4, 3, 6e-2);
  for (const RandomKey &other :
       {RandomKey{1338, kKey.path, 0}, RandomKey{1337, path_hash("layer.attn.wk"), 0}, RandomKey{1337, kKey.path, 1}}) {
    fill_random(y.data(), other, Distribution::Normal, 0, 1, {{n, 0, 1}});
    double correlation = 0;
    for (int64_t i = 0; i < n; ++i)
      correlation += x[i] * y[i] / n;
    EXPECT_NEAR(correlation, 0, 5e-3);
  }
  fill_random(y.data(), kKey, Distribution::Uniform, -2, 3, {{n, 0, 1}});
  double mean = 0, low = 9, high = -9;
  for (double v : y)
    mean += v / n, low = std::min(low, v), high = std::max(high, v);
  EXPECT_NEAR(mean, 0.5, 1e-2);
  EXPECT_GE(low, -2);
  EXPECT_LT(high, 3);
}

// Keep gives b where the uniform number of the same place is below a.
TEST(FillRandom, Keep) {
  std::vector<float> mask(1000), uniform(1000);
  fill_random(mask.data(), kKey, Distribution::Keep, 0.75, 4.0 / 3, {{1000, 0, 1}});
  fill_random(uniform.data(), kKey, Distribution::Uniform, 0, 1, {{1000, 0, 1}});
  for (size_t i = 0; i < mask.size(); ++i)
    EXPECT_EQ(mask[i], uniform[i] < 0.75f ? float(4.0 / 3) : 0.0f);
}

} // namespace
