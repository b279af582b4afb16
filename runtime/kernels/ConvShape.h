// The shape of a convolution.
#pragma once
#include <cstdint>

namespace echelon::runtime {

constexpr int kMaxWindowRank = 4;

/// One window dimension: size of x, of the window; step; zeros before and after.
struct WindowDim {
  int64_t in, window, stride, padLow, padHigh;
  constexpr int64_t out() const { return (in + padLow + padHigh - window) / stride + 1; }
};

/// x: (batch, from, in...), w: (to, from, window...), y: (batch, to, out...).
struct ConvShape {
  int64_t batch, from, to;
  int rank;
  WindowDim dims[kMaxWindowRank];
};

enum class ConvKind : uint8_t { forward, gradData, gradWeights };

} // namespace echelon::runtime
