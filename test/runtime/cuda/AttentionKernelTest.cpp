// Attention on the device and its derivative against the CPU's: causality, masks, biases, groups, targets that slices
// share.
#include "OnDevice.h"
#include "UnderSeeds.h"
#include "runtime/cuda/Attention.h"
#include "test/runtime/kernels/Values.h"

namespace echelon::cuda {
namespace {

using runtime::expectClose;
using runtime::values;

template <typename T> struct AttentionKernel : ::testing::Test {};
TYPED_TEST_SUITE(AttentionKernel, runtime::Types);

/// (batch, rows, group, head, width) in storage order; over dimensions in `shared` (batch b, group g, head h, rows r)
/// a stride of 0.
HeadStrides storage(const AttentionShape &s, int64_t rows, int64_t width, const std::string &shared = "") {
  const auto has = [&](char c) { return shared.find(c) != std::string::npos; };
  const int64_t heads = has('h') ? 1 : s.head, groups = has('g') ? 1 : s.group, length = has('r') ? 1 : rows;
  return {has('b') ? 0 : length * groups * heads * width, has('g') ? 0 : heads * width, has('h') ? 0 : width,
          has('r') ? 0 : groups * heads * width};
}

template <typename T> int64_t sizeOf(const AttentionShape &s, const HeadStrides &by, int64_t rows, int64_t width) {
  return (s.batch - 1) * by.batch + (s.group - 1) * by.group + (s.head - 1) * by.head + (rows - 1) * by.row + width;
}
int64_t sizeOf(const AttentionShape &s, const ScoreStrides &by) {
  return (s.batch - 1) * by.batch + (s.group - 1) * by.group + (s.head - 1) * by.head + (s.seq - 1) * by.seq +
         (s.past - 1) * by.past + 1;
}

struct Case {
  AttentionShape shape;
  bool masked = false, biased = false;
  std::string sharedKeys = "";                          // of k and v, as they are read
  std::string sharedQ = "", sharedK = "", sharedV = ""; // of the targets
};

/// Forward, and with it the derivative, in T against double on the CPU.
template <typename T> void compare(const Case &c) {
  using W = Wide<T>;
  const AttentionShape &s = c.shape;
  const AttentionStrides strides = {storage(s, s.seq, s.key), storage(s, s.past, s.key, c.sharedKeys),
                                    storage(s, s.past, s.value, c.sharedKeys), storage(s, s.seq, s.value)};
  const AttentionStrides grads = {storage(s, s.seq, s.key, c.sharedQ), storage(s, s.past, s.key, c.sharedK),
                                  storage(s, s.past, s.value, c.sharedV), storage(s, s.seq, s.value)};
  const auto make = [](int64_t n, int seed) {
    std::vector<T> x;
    for (float v : values<float>(n, seed))
      x.push_back(T(v));
    return x;
  };
  const auto wide = [](const std::vector<T> &x) { return std::vector<double>(x.begin(), x.end()); };
  const auto wideW = [](const std::vector<W> &x) { return std::vector<double>(x.begin(), x.end()); };
  auto q = make(sizeOf<T>(s, strides.q, s.seq, s.key), 1), k = make(sizeOf<T>(s, strides.k, s.past, s.key), 2),
       v = make(sizeOf<T>(s, strides.v, s.past, s.value), 3), dout = make(sizeOf<T>(s, grads.out, s.seq, s.value), 4),
       bias = make(sizeOf(s, s.bias), 5);
  std::vector<uint8_t> mask(sizeOf(s, s.mask));
  for (size_t i = 0; i < mask.size(); ++i)
    mask[i] = i % 5 != 3;
  const int64_t rows = s.batch * s.group * s.head * s.seq;

  std::vector<double> out(dout.size()), top(rows), sum(rows), dq(sizeOf<T>(s, grads.q, s.seq, s.key)),
      dk(sizeOf<T>(s, grads.k, s.past, s.key)), dv(sizeOf<T>(s, grads.v, s.past, s.value)), dbias(bias.size());
  const auto wq = wide(q), wk = wide(k), wv = wide(v), wd = wide(dout), wb = wide(bias);
  const uint8_t *m = c.masked ? mask.data() : nullptr;
  const double *b = c.biased ? wb.data() : nullptr;
  runtime::attention(out.data(), top.data(), sum.data(), wq.data(), wk.data(), wv.data(), s, strides, m, b);
  runtime::attention_grad(dq.data(), dk.data(), dv.data(), c.biased ? dbias.data() : nullptr, wd.data(), out.data(),
                          top.data(), sum.data(), wq.data(), wk.data(), wv.data(), s, strides, grads, m, b);

  OnDevice<T> onQ(q), onK(k), onV(v), onDout(dout), onBias(bias), onOut(std::vector<T>(out.size(), T(9.0f))),
      onDq(std::vector<T>(dq.size(), T(9.0f))), onDk(std::vector<T>(dk.size(), T(9.0f))),
      onDv(std::vector<T>(dv.size(), T(9.0f))), onDbias(std::vector<T>(dbias.size(), T(9.0f)));
  OnDevice<W> onTop(std::vector<W>(rows, W(9))), onSum(std::vector<W>(rows, W(9))),
      scratch(std::vector<W>(attention_grad_scratch(s, grads), W(9)));
  OnDevice<uint8_t> onMask(mask);
  const uint8_t *there = c.masked ? onMask.get() : nullptr;
  const T *biasThere = c.biased ? onBias.get() : nullptr;
  attention<T>(nullptr, onOut.get(), onTop.get(), onSum.get(), onQ.get(), onK.get(), onV.get(), s, strides, there,
               biasThere);
  attention_grad<T>(nullptr, onDq.get(), onDk.get(), onDv.get(), c.biased ? onDbias.get() : nullptr, onDout.get(),
                    onOut.get(), onTop.get(), onSum.get(), onQ.get(), onK.get(), onV.get(), s, strides, grads, there,
                    biasThere, scratch.get());
  // expectClose of doubles allows 1e-12.
  const double slack = std::is_same_v<T, double>  ? 1
                       : std::is_same_v<T, float> ? 1e7
                       : std::is_same_v<T, fp16>  ? 2e9
                                                  : 2e10;
  expectClose(wide(onOut.host()), out, "out", slack);
  expectClose(wideW(onTop.host()), top, "maximum", std::min(slack, 1e7));
  expectClose(wideW(onSum.host()), sum, "sum", std::min(slack, 1e7));
  expectClose(wide(onDq.host()), dq, "dq", slack);
  expectClose(wide(onDk.host()), dk, "dk", slack);
  expectClose(wide(onDv.host()), dv, "dv", slack);
  if (c.biased)
    expectClose(wide(onDbias.host()), dbias, "dbias", slack);
}

// Lengths below, at and beyond a tile, causal or not.
TYPED_TEST(AttentionKernel, Lengths) {
  underSeeds([] {
    for (bool causal : {false, true})
      for (int64_t seq : {1, 33, 70})
        for (int64_t past : {1, 64, 75})
          compare<TypeParam>({{1, 1, 2, seq, past, 8, 8, 0.35, causal}});
  });
}

// Every size that there is a kernel for, filled and not; values of another size than keys.
TYPED_TEST(AttentionKernel, HeadSizes) {
  underSeeds([] {
    for (int64_t size : {1, 32, 40, 64, 100, 128, 200, 256})
      compare<TypeParam>({{1, 1, 1, 19, 37, size, size, 0.1, true, 18}});
    compare<TypeParam>({{1, 1, 2, 10, 12, 4, 70, 0.5, false}});
    compare<TypeParam>({{1, 1, 2, 10, 12, 50, 6, 0.5, false}});
  });
}

TYPED_TEST(AttentionKernel, OffsetsShiftTheDiagonal) {
  underSeeds([] {
    compare<TypeParam>({{1, 1, 2, 40, 80, 8, 8, 0.35, true, 40}});
    compare<TypeParam>({{1, 1, 2, 70, 80, 8, 8, 0.35, true, -40}}); // the first queries see nothing
    compare<TypeParam>({{1, 1, 1, 5, 80, 8, 8, 0.35, true, -40}});  // none does
  });
}

// A mask a sample and a bias a head, then biases that are shared along each dimension.
TYPED_TEST(AttentionKernel, MasksAndBiases) {
  underSeeds([] {
    AttentionShape s = {2, 1, 3, 20, 40, 4, 4, 0.5, false};
    s.mask = {40, 0, 0, 0, 1};
    s.bias = {0, 0, 20 * 40, 40, 1};
    compare<TypeParam>({s, true, false});
    compare<TypeParam>({s, true, true});
    s.causal = true;
    s.offset = 15;
    for (ScoreStrides bias : {ScoreStrides{2400, 2400, 800, 40, 1}, ScoreStrides{120, 0, 40, 0, 1},
                              ScoreStrides{0, 0, 20, 1, 0}, ScoreStrides{1, 0, 0, 0, 0}, ScoreStrides{0, 0, 0, 0, 0}}) {
      s.bias = bias;
      compare<TypeParam>({s, false, true});
    }
  });
}

// A bias that several tiles of queries and keys share.
TYPED_TEST(AttentionKernel, BiasesOfManyTiles) {
  underSeeds([] {
    AttentionShape s = {1, 1, 2, 70, 90, 4, 4, 0.5, false};
    for (ScoreStrides bias : {ScoreStrides{0, 0, 0, 90, 1}, ScoreStrides{0, 0, 90, 0, 1}, ScoreStrides{0, 0, 70, 1, 0},
                              ScoreStrides{0, 0, 1, 0, 0}}) {
      s.bias = bias;
      compare<TypeParam>({s, false, true});
    }
  });
}

// Three query heads a group read one key head, and their derivatives are summed; other targets that are shared.
TYPED_TEST(AttentionKernel, SharedTargets) {
  underSeeds([] {
    const AttentionShape s = {2, 2, 3, 9, 35, 4, 6, 0.5, false};
    compare<TypeParam>({s, false, false, "h", "", "h", "h"});
    compare<TypeParam>({s, false, false, "h", "", "h", ""});
    compare<TypeParam>({s, false, false, "bg", "b", "gh", "bgh"});
    compare<TypeParam>({s, false, false, "", "r", "br", "hr"});
  });
}

TEST(AttentionKernelNarrow, ComputesInFloat) {
  underSeeds([] {
    AttentionShape s = {1, 1, 3, 40, 70, 8, 8, 0.35, true, 30};
    s.bias = {0, 0, 40 * 70, 70, 1};
    compare<bf16>({s, false, true, "h", "", "h", "h"});
    compare<fp16>({s, false, true, "h", "", "h", "h"});
  });
}

// No keys: 0, with a maximum of -inf and a sum of 0.
TEST(AttentionKernelEmpty, NoKeys) {
  const AttentionShape s = {1, 1, 1, 3, 0, 4, 4, 0.5, false};
  const AttentionStrides strides = {storage(s, 3, 4), storage(s, 0, 4), storage(s, 0, 4), storage(s, 3, 4)};
  OnDevice<float> q(std::vector<float>(12, 1.0f)), out(std::vector<float>(12, 9.0f)), top(std::vector<float>(3)),
      sum(std::vector<float>(3, 9.0f)), scratch(std::vector<float>(3)), dq(std::vector<float>(12, 9.0f));
  attention<float>(nullptr, out.get(), top.get(), sum.get(), q.get(), nullptr, nullptr, s, strides);
  EXPECT_EQ(out.host(), std::vector<float>(12));
  EXPECT_EQ(top.host(), std::vector<float>(3, -std::numeric_limits<float>::infinity()));
  EXPECT_EQ(sum.host(), std::vector<float>(3));
  attention_grad<float>(nullptr, dq.get(), nullptr, nullptr, nullptr, q.get(), out.get(), top.get(), sum.get(), q.get(),
                        nullptr, nullptr, s, strides, strides, nullptr, nullptr, scratch.get());
  EXPECT_EQ(dq.host(), std::vector<float>(12));
}

} // namespace
} // namespace echelon::cuda
