// Attention in blocks against plain loops, gradients against differences: masks, biases, groups, offsets.
#include "runtime/kernels/Attention.h"
#include "Values.h"

namespace echelon::runtime {
namespace {

template <typename T> struct Attention : ::testing::Test {};
TYPED_TEST_SUITE(Attention, Types);

/// (batch, rows, group, head, width) in storage order; one head for k and v where `shared`.
HeadStrides storage(const AttentionShape &s, int64_t rows, int64_t width, bool shared = false) {
  int64_t heads = shared ? 1 : s.head;
  return {rows * s.group * heads * width, heads * width, shared ? 0 : width, s.group * heads * width};
}

struct Sizes {
  int64_t q, k, v, out, rows;
};
Sizes sizesOf(const AttentionShape &s, bool shared = false) {
  int64_t heads = s.group * s.head, kept = shared ? s.group : heads;
  return {s.batch * s.seq * heads * s.key, s.batch * s.past * kept * s.key, s.batch * s.past * kept * s.value,
          s.batch * s.seq * heads * s.value, s.batch * heads * s.seq};
}
AttentionStrides stridesOf(const AttentionShape &s, bool shared = false) {
  return {storage(s, s.seq, s.key), storage(s, s.past, s.key, shared), storage(s, s.past, s.value, shared),
          storage(s, s.seq, s.value)};
}

template <typename T>
void compare(const AttentionShape &shape, const std::vector<uint8_t> &mask, bool biased, bool shared) {
  Sizes n = sizesOf(shape, shared);
  AttentionStrides strides = stridesOf(shape, shared);
  auto q = values<T>(n.q, 1), k = values<T>(n.k, 2), v = values<T>(n.v, 3);
  auto bias = values<T>(shape.group * shape.head * shape.seq * shape.past, 4);
  std::vector<T> out(n.out, T(7)), top(n.rows), sum(n.rows), expected(n.out), expectedTop(n.rows), expectedSum(n.rows);
  const uint8_t *m = mask.empty() ? nullptr : mask.data();
  attention(out.data(), top.data(), sum.data(), q.data(), k.data(), v.data(), shape, strides, m,
            biased ? bias.data() : nullptr);
  reference::attention(expected.data(), expectedTop.data(), expectedSum.data(), q.data(), k.data(), v.data(), shape,
                       strides, m, biased ? bias.data() : nullptr);
  expectClose(out, expected, "out");
  expectClose(top, expectedTop, "maximum");
  expectClose(sum, expectedSum, "sum");
}

// Lengths below, at and beyond the block sizes, causal or not.
TYPED_TEST(Attention, MatchesTheReference) {
  for (bool causal : {false, true})
    for (int64_t seq : {1, 7, 64, 130})
      for (int64_t past : {1, 33, 600}) {
        AttentionShape shape{2, 1, 2, seq, past, 8, 8, 0.35, causal};
        compare<TypeParam>(shape, {}, false, false);
      }
  compare<TypeParam>({1, 1, 1, 10, 12, 4, 6, 0.5, false}, {}, false, false); // values of another size than keys
}

// A rank that holds the second half of the queries sees all keys of the first half.
TYPED_TEST(Attention, OffsetsShiftTheDiagonal) {
  AttentionShape shape{1, 1, 2, 40, 80, 8, 8, 0.35, true};
  shape.offset = 40;
  compare<TypeParam>(shape, {}, false, false);
  shape.offset = -3; // the first queries see nothing
  compare<TypeParam>(shape, {}, false, false);
}

// A bias per head and a mask per sample, each broadcast over the rest.
TYPED_TEST(Attention, MasksAndBiases) {
  AttentionShape shape{2, 1, 3, 20, 30, 4, 4, 0.5, false};
  shape.bias = {0, 0, 20 * 30, 30, 1};
  shape.mask = {30, 0, 0, 0, 1};
  std::vector<uint8_t> mask(2 * 30, 1);
  for (int j = 0; j < 30; ++j)
    mask[j] = j % 3 != 0, mask[30 + j] = 0; // the second sample sees nothing
  compare<TypeParam>(shape, mask, false, false);
  compare<TypeParam>(shape, mask, true, false);
  compare<TypeParam>(shape, {}, true, false);
}

// Three query heads a group read one key head through a stride of 0.
TYPED_TEST(Attention, GroupsShareKeys) { compare<TypeParam>({2, 2, 3, 9, 11, 4, 4, 0.5, false}, {}, false, true); }

/// Gradients of q, k, v and the bias against differences.
void checkGradient(const AttentionShape &shape, const std::vector<uint8_t> &mask, bool biased, bool shared) {
  Sizes n = sizesOf(shape, shared);
  AttentionStrides strides = stridesOf(shape, shared);
  auto q = values<double>(n.q, 1), k = values<double>(n.k, 2), v = values<double>(n.v, 3), d = values<double>(n.out, 4);
  auto bias = values<double>(shape.group * shape.head * shape.seq * shape.past, 5);
  std::vector<double> out(n.out), top(n.rows), sum(n.rows), dq(n.q, 9), dk(n.k, 9), dv(n.v, 9), dbias(bias.size(), 9);
  const uint8_t *m = mask.empty() ? nullptr : mask.data();
  auto forward = [&](const double *a, const double *b, const double *c, const double *e) {
    std::vector<double> o(n.out), top(n.rows), sum(n.rows);
    reference::attention(o.data(), top.data(), sum.data(), a, b, c, shape, strides, m, biased ? e : nullptr);
    return o;
  };
  const double *b = biased ? bias.data() : nullptr;
  attention(out.data(), top.data(), sum.data(), q.data(), k.data(), v.data(), shape, strides, m, b);
  attention_grad(dq.data(), dk.data(), dv.data(), biased ? dbias.data() : nullptr, d.data(), out.data(), top.data(),
                 sum.data(), q.data(), k.data(), v.data(), shape, strides, strides, m, b);
  using V = const std::vector<double> &;
  expectGradient(q, d, dq, [&](V x) { return forward(x.data(), k.data(), v.data(), b); }, "dq");
  expectGradient(k, d, dk, [&](V x) { return forward(q.data(), x.data(), v.data(), b); }, "dk");
  expectGradient(v, d, dv, [&](V x) { return forward(q.data(), k.data(), x.data(), b); }, "dv");
  if (biased)
    expectGradient(bias, d, dbias, [&](V x) { return forward(q.data(), k.data(), v.data(), x.data()); }, "dbias");
}

TEST(AttentionGradient, MatchesDifferences) {
  checkGradient({2, 1, 2, 5, 7, 3, 3, 0.6, false}, {}, false, false);
  checkGradient({1, 1, 1, 6, 6, 3, 4, 0.6, true}, {}, false, false);
  checkGradient({1, 2, 2, 3, 4, 2, 2, 0.6, false}, {}, false, true);
  AttentionShape shape{2, 1, 2, 4, 5, 3, 3, 0.6, false};
  shape.bias = {0, 0, 20, 5, 1};
  shape.mask = {5, 0, 0, 0, 1};
  checkGradient(shape, {1, 0, 1, 1, 0, 0, 1, 1, 1, 1}, true, false);
  AttentionShape late{2, 1, 2, 15, 20, 9, 12, 0.6, true};
  late.offset = -7; // the first queries see nothing, and nobody sees the last keys
  checkGradient(late, {}, false, false);
}

// A row that sees nothing but a large negative bias attends to all keys alike: the bias is far from 0, and nothing is
// lost of what lies above it.
TEST(AttentionGradient, LargeBiasesTakeNoDigits) {
  for (float low : {-1e4f, -1e9f, std::numeric_limits<float>::lowest()}) {
    AttentionShape shape{1, 1, 1, 3, 5, 4, 4, 0.5, false};
    shape.bias = {0, 0, 0, 5, 1};
    Sizes n = sizesOf(shape);
    AttentionStrides strides = stridesOf(shape);
    auto q = values<float>(n.q, 1), k = values<float>(n.k, 2), v = values<float>(n.v, 3), d = values<float>(n.out, 4);
    std::vector<float> bias(15, low);
    bias[6] = bias[8] = 0; // the second query sees two keys
    std::vector<float> out(n.out), top(n.rows), sum(n.rows), dq(n.q), dk(n.k), dv(n.v), dbias(15);
    attention(out.data(), top.data(), sum.data(), q.data(), k.data(), v.data(), shape, strides, nullptr, bias.data());
    attention_grad(dq.data(), dk.data(), dv.data(), dbias.data(), d.data(), out.data(), top.data(), sum.data(),
                   q.data(), k.data(), v.data(), shape, strides, strides, nullptr, bias.data());
    for (int64_t i = 0; i < 3; ++i) {
      double p[5], dp[5], total = 0, dot = 0;
      for (int64_t j = 0; j < 5; ++j) {
        float score = 0; // as rounded beside the bias
        for (int64_t c = 0; c < 4; ++c)
          score += 0.5f * q[i * 4 + c] * k[j * 4 + c];
        score += bias[i * 5 + j];
        p[j] = score;
      }
      const double m = *std::max_element(p, p + 5);
      for (double &x : p)
        total += x = std::exp(x - m);
      for (int64_t j = 0; j < 5; ++j) {
        p[j] /= total, dp[j] = 0;
        for (int64_t c = 0; c < 4; ++c)
          dp[j] += double(d[i * 4 + c]) * v[j * 4 + c];
        dot += p[j] * dp[j];
      }
      const double tolerance = low == -1e4f ? 4e-3 : 2e-6; // near 1e4 the scores themselves have steps of 1e-3
      for (int64_t j = 0; j < 5; ++j)
        EXPECT_NEAR(dbias[i * 5 + j], p[j] * (dp[j] - dot), tolerance) << low << " query " << i << " key " << j;
    }
  }
}

// Beyond one block of queries and keys the float gradients equal the double ones.
TEST(AttentionGradient, BlocksAgreeWithDouble) {
  AttentionShape shape{1, 1, 1, 150, 700, 4, 4, 0.5, true};
  shape.offset = 550;
  Sizes n = sizesOf(shape);
  AttentionStrides strides = stridesOf(shape);
  auto q = values<double>(n.q, 1), k = values<double>(n.k, 2), v = values<double>(n.v, 3), d = values<double>(n.out, 4);
  std::vector<double> out(n.out), top(n.rows), sum(n.rows), dq(n.q), dk(n.k), dv(n.v);
  attention(out.data(), top.data(), sum.data(), q.data(), k.data(), v.data(), shape, strides);
  attention_grad<double>(dq.data(), dk.data(), dv.data(), nullptr, d.data(), out.data(), top.data(), sum.data(),
                         q.data(), k.data(), v.data(), shape, strides, strides);
  std::vector<float> fq(q.begin(), q.end()), fk(k.begin(), k.end()), fv(v.begin(), v.end()), fd(d.begin(), d.end());
  std::vector<float> fout(n.out), ftop(n.rows), fsum(n.rows), fdq(n.q), fdk(n.k), fdv(n.v);
  attention(fout.data(), ftop.data(), fsum.data(), fq.data(), fk.data(), fv.data(), shape, strides);
  attention_grad<float>(fdq.data(), fdk.data(), fdv.data(), nullptr, fd.data(), fout.data(), ftop.data(), fsum.data(),
                        fq.data(), fk.data(), fv.data(), shape, strides, strides);
  auto narrow = [](const std::vector<double> &x) { return std::vector<float>(x.begin(), x.end()); };
  expectClose(fdq, narrow(dq), "dq");
  expectClose(fdk, narrow(dk), "dk");
  expectClose(fdv, narrow(dv), "dv");
  // Some entries of the double gradient against differences of the reference.
  auto total = [&] {
    std::vector<double> o(n.out), tops(n.rows), sums(n.rows);
    reference::attention(o.data(), tops.data(), sums.data(), q.data(), k.data(), v.data(), shape, strides, nullptr,
                         static_cast<const double *>(nullptr));
    double sum = 0;
    for (int64_t i = 0; i < n.out; ++i)
      sum += o[i] * d[i];
    return sum;
  };
  auto difference = [&](double &x) {
    double kept = x;
    x = kept + 1e-5;
    double above = total();
    x = kept - 1e-5;
    double below = total();
    x = kept;
    return (above - below) / 2e-5;
  };
  for (int64_t i : {0, 301, 599})
    EXPECT_NEAR(dq[i], difference(q[i]), 1e-7) << "dq " << i;
  for (int64_t i : {3, 2047, 2060, 2799}) {
    EXPECT_NEAR(dk[i], difference(k[i]), 1e-7) << "dk " << i;
    EXPECT_NEAR(dv[i], difference(v[i]), 1e-7) << "dv " << i;
  }
}

// What keys give one block after the other is what they give together, also to queries of which a block, or all, shows
// nothing; so it is with derivatives, a block of queries after the other.
TYPED_TEST(Attention, AddsToWhatOtherKeysGave) {
  using T = TypeParam;
  const AttentionShape all{2, 1, 2, 70, 300, 8, 8, 0.35, true, 230, {0, 0, 0, 300, 1}};
  const Sizes n = sizesOf(all);
  const AttentionStrides strides = stridesOf(all);
  auto q = values<T>(n.q, 1), k = values<T>(n.k, 2), v = values<T>(n.v, 3), d = values<T>(n.out, 4);
  std::vector<uint8_t> mask(70 * 300, 1);
  for (int j = 0; j < 300; ++j)
    mask[5 * 300 + j] = 0, mask[6 * 300 + j] = j < 290, mask[7 * 300 + j] = j > 200;
  std::vector<T> out(n.out), top(n.rows), sum(n.rows), dq(n.q), dk(n.k), dv(n.v);
  attention<T>(out.data(), top.data(), sum.data(), q.data(), k.data(), v.data(), all, strides, mask.data());
  attention_grad<T>(dq.data(), dk.data(), dv.data(), nullptr, d.data(), out.data(), top.data(), sum.data(), q.data(),
                    k.data(), v.data(), all, strides, strides, mask.data());

  std::vector<T> out2(n.out), top2(n.rows, -INFINITY), sum2(n.rows), dq2(n.q), dk2(n.k), dv2(n.v);
  auto inParts = [&](auto visit) {
    for (auto [i, rows] : {std::pair<int64_t, int64_t>{0, 64}, {64, 6}})
      for (auto [j, keys] : {std::pair<int64_t, int64_t>{290, 10}, {0, 265}, {265, 25}}) {
        AttentionShape part = all;
        part.seq = rows;
        part.past = keys;
        part.offset += i - j;
        part.adds = true;
        part.apart = all.seq;
        visit(part, i, i * strides.q.row, j * strides.k.row, mask.data() + i * 300 + j);
      }
  };
  inParts([&](const AttentionShape &part, int64_t i, int64_t atQ, int64_t atK, const uint8_t *seen) {
    attention<T>(&out2[atQ], &top2[i], &sum2[i], &q[atQ], &k[atK], &v[atK], part, strides, seen);
  });
  expectClose(out2, out, "out");
  expectClose(top2, top, "maximum");
  expectClose(sum2, sum, "sum");
  inParts([&](const AttentionShape &part, int64_t i, int64_t atQ, int64_t atK, const uint8_t *seen) {
    attention_grad<T>(&dq2[atQ], &dk2[atK], &dv2[atK], nullptr, &d[atQ], &out2[atQ], &top2[i], &sum2[i], &q[atQ],
                      &k[atK], &v[atK], part, strides, strides, seen);
  });
  expectClose(dq2, dq, "dq");
  expectClose(dk2, dk, "dk");
  expectClose(dv2, dv, "dv");
}

} // namespace
} // namespace echelon::runtime
