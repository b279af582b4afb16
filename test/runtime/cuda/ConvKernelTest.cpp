// Convolutions on the device against plain loops: dimensions, steps, padding, chunks of samples.
#include "OnDevice.h"
#include "UnderSeeds.h"
#include "runtime/cuda/Conv.h"
#include "runtime/kernels/Conv.h"
#include "test/runtime/kernels/Values.h"

namespace echelon::cuda {
namespace {

using runtime::expectClose;
using runtime::values;

template <typename T> struct ConvKernel : ::testing::Test {};
TYPED_TEST_SUITE(ConvKernel, runtime::Types);

/// `most`: elements of scratch.
template <typename T> void compare(const ConvShape &shape, int64_t most = 1 << 24) {
  const ConvColumns c(shape, ConvKind::forward);
  const int64_t xs = shape.batch * shape.from * c.in, ws = shape.to * c.inner, ys = shape.batch * shape.to * c.out;
  auto x = values<T>(xs, 1), w = values<T>(ws, 2), dy = values<T>(ys, 3);
  std::vector<T> y(ys), dx(xs), dw(ws);
  runtime::reference::conv(y.data(), x.data(), w.data(), shape);
  runtime::reference::conv_grad_data(dx.data(), dy.data(), w.data(), shape);
  runtime::reference::conv_grad_weights(dw.data(), x.data(), dy.data(), shape);

  Blas blas;
  OnDevice<T> onX(x), onW(w), onDy(dy), onY(std::vector<T>(ys, T(9))), onDx(std::vector<T>(xs, T(9))),
      onDw(std::vector<T>(ws, T(9)));
  const auto scratch = [&](ConvKind kind) { return std::vector<T>(conv_scratch(shape, kind, most)); };
  OnDevice<T> forward(scratch(ConvKind::forward)), data(scratch(ConvKind::gradData)),
      weights(scratch(ConvKind::gradWeights));
  conv(blas, nullptr, onY.get(), onX.get(), onW.get(), shape, forward.get(),
       conv_scratch(shape, ConvKind::forward, most));
  conv_grad_data(blas, nullptr, onDx.get(), onDy.get(), onW.get(), shape, data.get(),
                 conv_scratch(shape, ConvKind::gradData, most));
  conv_grad_weights(blas, nullptr, onDw.get(), onX.get(), onDy.get(), shape, weights.get(),
                    conv_scratch(shape, ConvKind::gradWeights, most));
  expectClose(onY.host(), y, "y");
  expectClose(onDx.host(), dx, "dx");
  expectClose(onDw.host(), dw, "dw");
}

TYPED_TEST(ConvKernel, EqualsPlainLoops) {
  using T = TypeParam;
  underSeeds([] {
    compare<T>({3, 2, 4, 1, {{11, 3, 2, 1, 0}}});
    compare<T>({2, 3, 5, 2, {{7, 3, 1, 1, 1}, {6, 3, 1, 1, 1}}});
    compare<T>({2, 4, 3, 2, {{8, 3, 2, 1, 1}, {9, 2, 3, 0, 0}}});
    compare<T>({2, 8, 4, 2, {{4, 1, 1, 0, 0}, {4, 1, 1, 0, 0}}}); // one product without a matrix of windows
    compare<T>({1, 2, 3, 2, {{5, 1, 2, 0, 0}, {5, 1, 2, 0, 0}}}); // steps between points
    compare<T>({1, 2, 2, 3, {{4, 2, 1, 0, 0}, {3, 2, 1, 1, 0}, {5, 3, 2, 0, 1}}});
    compare<T>({2, 1, 2, 4, {{3, 2, 1, 0, 0}, {3, 2, 2, 1, 0}, {3, 1, 1, 0, 0}, {4, 3, 1, 1, 1}}});
  });
}

// No samples: no result, and a derivative of 0.
TYPED_TEST(ConvKernel, NoSamples) {
  underSeeds([] { compare<TypeParam>({0, 2, 3, 1, {{5, 3, 1, 1, 1}}}); });
}

// Scratch for two samples of five, and for one: each chunk's weights are added to those before.
TYPED_TEST(ConvKernel, ChunksAreSummed) {
  const ConvShape shape = {5, 2, 3, 1, {{10, 3, 1, 1, 1}}};
  const int64_t sample = ConvColumns(shape, ConvKind::gradWeights).each;
  underSeeds([=] {
    for (int64_t most : {2 * sample + 15, int64_t(1)})
      compare<TypeParam>(shape, most);
  });
}

} // namespace
} // namespace echelon::cuda
