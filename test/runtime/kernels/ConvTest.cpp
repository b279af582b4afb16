// Convolutions against plain loops: strides, asymmetric padding, one to four window dimensions.
#include "runtime/kernels/Conv.h"
#include "Values.h"
#include "runtime/kernels/cpu/ConvDirect.h"
#include "runtime/kernels/cpu/ConvWinograd.h"

namespace echelon::runtime {
namespace {

template <typename T> struct Conv : ::testing::Test {};
TYPED_TEST_SUITE(Conv, Types);

struct Sizes {
  int64_t x, w, y;
};
Sizes sizesOf(const ConvShape &s) {
  Sizes n{s.batch * s.from, s.to * s.from, s.batch * s.to};
  for (int d = 0; d < s.rank; ++d)
    n.x *= s.dims[d].in, n.w *= s.dims[d].window, n.y *= s.dims[d].out();
  return n;
}

const ConvShape kShapes[] = {
    {1, 1, 1, 1, {{1, 1, 1, 0, 0}}},
    {1, 2, 3, 1, {{1, 1, 2, 0, 0}}}, // a step larger than the image
    {2, 5, 4, 2, {{1, 3, 2, 1, 1}, {1, 3, 3, 1, 1}}},
    {2, 3, 4, 1, {{9, 3, 2, 1, 1}}},
    {2, 3, 16, 2, {{8, 3, 1, 1, 1}, {8, 3, 1, 1, 1}}}, // as the first layer of a residual net
    {2, 1, 16, 2, {{8, 3, 1, 1, 1}, {9, 3, 1, 1, 1}}}, // grey images
    {3, 1, 4, 1, {{11, 5, 2, 3, 2}}},
    {4, 4, 4, 1, {{8192, 3, 1, 1, 1}}},                  // two samples at a time
    {1, 16, 16, 2, {{9, 3, 1, 1, 1}, {7, 3, 1, 1, 1}}},  // blocked formats
    {2, 16, 32, 2, {{8, 3, 2, 1, 1}, {8, 3, 2, 1, 1}}},  // stride 2
    {2, 5, 7, 2, {{33, 3, 2, 1, 1}, {37, 5, 2, 2, 1}}},  // stride 2, rows of several vectors
    {7, 6, 9, 2, {{8, 3, 1, 1, 1}, {16, 3, 1, 1, 1}}},   // several images at a time, the last ones fewer
    {3, 18, 5, 2, {{32, 3, 1, 1, 1}, {32, 3, 1, 1, 1}}}, // long sums in parts
    {1, 2, 4, 2, {{5, 3, 1, 4, 3}, {6, 2, 3, 3, 5}}},    // windows wholly in the padding
    {1, 5, 7, 2, {{6, 1, 1, 0, 0}, {5, 1, 2, 0, 0}}},    // 1 x 1
    {2, 2, 3, 2, {{7, 4, 3, 2, 0}, {10, 2, 4, 0, 1}}},   // asymmetric padding, a step that leaves columns unread
    {1, 1, 1, 2, {{3, 3, 1, 0, 0}, {3, 3, 1, 0, 0}}},    // one result
    {2, 1, 3, 2, {{4, 3, 1, 0, 2}, {1, 3, 1, 2, 1}}},    // one column, more padding than image
    {2, 9, 17, 2, {{5, 3, 1, 2, 0}, {11, 3, 1, 0, 2}}},  // asymmetric padding, channels and sizes off the vectors
    {11, 8, 24, 2, {{6, 3, 1, 1, 1}, {5, 3, 1, 1, 1}}},  // tiles of several images at a time, the last ones fewer
    {2, 10, 8, 2, {{29, 3, 1, 1, 1}, {35, 3, 1, 1, 1}}}, // rows of tiles at a time
    {1, 8, 8, 2, {{4, 3, 1, 0, 0}, {230, 3, 1, 1, 1}}},  // more tiles in a row than are taken at a time
    {1, 2, 3, 3, {{4, 3, 1, 1, 1}, {5, 2, 1, 0, 1}, {6, 3, 2, 1, 1}}},
    {1, 2, 2, 4, {{3, 2, 1, 0, 0}, {4, 3, 1, 1, 1}, {3, 2, 1, 1, 0}, {5, 3, 2, 1, 1}}},
};

TYPED_TEST(Conv, MatchesTheReference) {
  using T = TypeParam;
  // Without scratch memory, with all that is wanted (and primitives from the cache), with too little.
  for (int round = 0; round < 3; ++round)
    for (const ConvShape &s : kShapes) {
      SCOPED_TRACE(testing::Message() << "rank " << s.rank << ", from " << s.from << ", round " << round);
      Sizes n = sizesOf(s);
      auto x = values<T>(n.x, 1 + round), w = values<T>(n.w, 2), dy = values<T>(n.y, 3);
      int64_t count = 0;
      for (ConvKind kind : {ConvKind::forward, ConvKind::gradData, ConvKind::gradWeights})
        count = std::max(count, round * conv_scratch(kind, s, sizeof(T)) / (round == 2 ? 4 : 1));
      std::vector<T> scratch(count + 8, T(7));
      std::vector<T> y(n.y, T(9)), dx(n.x, T(9)), dw(n.w, T(9)), ey(n.y), edx(n.x), edw(n.w);
      conv(y.data(), x.data(), w.data(), s, scratch.data(), count);
      reference::conv(ey.data(), x.data(), w.data(), s);
      expectClose(y, ey, "y");
      conv_grad_data(dx.data(), dy.data(), w.data(), s, scratch.data(), count);
      reference::conv_grad_data(edx.data(), dy.data(), w.data(), s);
      expectClose(dx, edx, "dx");
      conv_grad_weights(dw.data(), x.data(), dy.data(), s, scratch.data(), count);
      reference::conv_grad_weights(edw.data(), x.data(), dy.data(), s);
      expectClose(dw, edw, "dw");
      EXPECT_EQ(std::vector<T>(scratch.end() - 8, scratch.end()), std::vector<T>(8, T(7)));
    }
}

/// Holds one way against the reference, with all the scratch memory that it wants and without.
template <typename T, typename Way, typename Scratch> void holdsUp(const ConvShape &s, Way way, Scratch scratchOf) {
  SCOPED_TRACE(testing::Message() << "from " << s.from << ", to " << s.to << ", last " << s.dims[s.rank - 1].in);
  Sizes n = sizesOf(s);
  auto x = values<T>(n.x, 1), w = values<T>(n.w, 2), dy = values<T>(n.y, 3);
  std::vector<T> ey(n.y), edx(n.x), edw(n.w);
  reference::conv(ey.data(), x.data(), w.data(), s);
  reference::conv_grad_data(edx.data(), dy.data(), w.data(), s);
  reference::conv_grad_weights(edw.data(), x.data(), dy.data(), s);
  for (bool withScratch : {false, true}) {
    std::vector<T> y(n.y, T(9)), dx(n.x, T(9)), dw(n.w, T(9));
    auto run = [&](ConvKind kind, T *src, T *weights, T *dst) {
      int64_t count = withScratch ? scratchOf(kind) : 0;
      std::vector<T> scratch(count + 8, T(7));
      way(kind, src, weights, dst, s, scratch.data(), count);
      EXPECT_EQ(std::vector<T>(scratch.end() - 8, scratch.end()), std::vector<T>(8, T(7)));
    };
    run(ConvKind::forward, x.data(), w.data(), y.data());
    expectClose(y, ey, "y");
    run(ConvKind::gradData, dx.data(), w.data(), dy.data());
    expectClose(dx, edx, "dx");
    run(ConvKind::gradWeights, x.data(), dw.data(), dy.data());
    expectClose(dw, edw, "dw");
  }
}

// Also where choose_conv prefers another way.
TYPED_TEST(Conv, TheDirectOneMatchesTheReference) {
  using T = TypeParam;
  for (const ConvShape &s : kShapes)
    holdsUp<T>(s, detail::conv_direct<T>, [&](ConvKind kind) { return conv_direct_scratch(kind, s, sizeof(T)); });
}

TYPED_TEST(Conv, WinogradsMatchesTheReference) {
  using T = TypeParam;
  int fitting = 0;
  for (const ConvShape &s : kShapes)
    if (detail::winogradFits(s)) {
      ++fitting;
      holdsUp<T>(s, detail::conv_winograd<T>,
                 [&](ConvKind kind) { return detail::WinogradShape(kind, s, 32 / sizeof(T)).scratch(); });
    }
  EXPECT_GT(fitting, 8);
}

// One sample's results do not hang on those beside it, nor on which images are taken at a time.
TYPED_TEST(Conv, WinogradsSamplesAreIndependent) {
  using T = TypeParam;
  ConvShape s{11, 8, 16, 2, {{6, 3, 1, 1, 1}, {5, 3, 1, 1, 1}}};
  Sizes n = sizesOf(s);
  auto x = values<T>(n.x, 1), w = values<T>(n.w, 2);
  std::vector<T> y(n.y), one(n.y);
  detail::conv_winograd<T>(ConvKind::forward, x.data(), w.data(), y.data(), s, nullptr, 0);
  ConvShape single = s;
  single.batch = 1;
  for (int64_t b = 0; b < s.batch; ++b)
    detail::conv_winograd<T>(ConvKind::forward, x.data() + b * n.x / s.batch, w.data(), one.data() + b * n.y / s.batch,
                             single, nullptr, 0);
  EXPECT_EQ(y, one);
}

// By hand: a 2 x 2 window of ones over 3 x 3 with one row and column of padding before.
TYPED_TEST(Conv, KnownValues) {
  using T = TypeParam;
  std::vector<T> x = {1, 2, 3, 4, 5, 6, 7, 8, 9}, w(4, T(1)), y(9);
  conv(y.data(), x.data(), w.data(), {1, 1, 1, 2, {{3, 2, 1, 1, 0}, {3, 2, 1, 1, 0}}});
  EXPECT_EQ(y, (std::vector<T>{1, 3, 5, 5, 12, 16, 11, 24, 28}));
}

TEST(ConvGradient, MatchesDifferences) {
  ConvShape s{2, 2, 3, 2, {{4, 3, 2, 1, 0}, {5, 2, 1, 0, 1}}};
  Sizes n = sizesOf(s);
  auto x = values<double>(n.x, 1), w = values<double>(n.w, 2), dy = values<double>(n.y, 3);
  std::vector<double> dx(n.x), dw(n.w);
  conv_grad_data(dx.data(), dy.data(), w.data(), s);
  conv_grad_weights(dw.data(), x.data(), dy.data(), s);
  auto forward = [&](const std::vector<double> &a, const std::vector<double> &b) {
    std::vector<double> y(n.y);
    reference::conv(y.data(), a.data(), b.data(), s);
    return y;
  };
  expectGradient(x, dy, dx, [&](const std::vector<double> &v) { return forward(v, w); }, "dx");
  expectGradient(w, dy, dw, [&](const std::vector<double> &v) { return forward(x, v); }, "dw");
}

} // namespace
} // namespace echelon::runtime
