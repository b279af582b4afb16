// How ConvDirect.cpp lays an image out: between zeros, such that what one window element meets in neighbouring outputs
// are neighbours. constexpr: the compiler sizes the scratch memory by it.
#pragma once
#include "runtime/kernels/ConvShape.h"

namespace echelon::runtime::detail {

constexpr int64_t roundUp(int64_t n, int64_t to) { return (n + to - 1) / to * to; }

/// A convolution with leading window dimensions of size 1, so that there are always four.
struct FourDims {
  WindowDim d[4] = {{1, 1, 1, 0, 0}, {1, 1, 1, 0, 0}, {1, 1, 1, 0, 0}, {1, 1, 1, 0, 0}};
  int64_t in = 1, window = 1, out = 1;
  constexpr explicit FourDims(const ConvShape &shape) {
    for (int k = 0; k < shape.rank; ++k)
      d[4 - shape.rank + k] = shape.dims[k];
    for (const WindowDim &w : d)
      in *= w.in, window *= w.window, out *= w.out();
  }
};

/// One dimension of a frame: how much of the image, zeros before it, how far windows reach (zeros included).
struct FrameDim {
  int64_t in, before, extent;
};

/// Channels of planes [phase][rows][row]: the columns of a phase lie `phases` apart in the image.
struct Frame {
  FrameDim d[4] = {};
  int64_t phases = 1;
  int64_t lead = 0; // unused elements at a row's begin, by which the image is aligned
  int64_t row = 0, plane = 1, channel = 0;

  constexpr Frame(const FrameDim (&dims)[4], int64_t phases, int64_t lanes) : phases(phases) {
    for (int k = 0; k < 4; ++k)
      d[k] = dims[k], plane *= k < 3 ? dims[k].extent : 1;
    const FrameDim &last = d[3];
    lead = phases > 1 ? 0 : roundUp(last.before, lanes) - last.before;
    const int64_t behind = last.extent - last.before - last.in;
    // The zeros behind a row may be those before the next one.
    const bool shared = phases == 1 && behind > 0 && behind <= lead + last.before;
    const int64_t used = shared ? last.extent - behind : last.extent;
    row = roundUp(lead + (used + phases - 1) / phases, lanes);
    plane *= row;
    channel = phases * plane;
  }
  /// Elements of an image of so many channels, and what vectors may read beyond its last row.
  constexpr int64_t count(int64_t channels, int64_t lanes) const {
    return roundUp(channels * channel + 2 * lanes + d[3].extent, lanes);
  }
};

/// x, as forward and the weights' derivative read it.
constexpr Frame frameOfX(const FourDims &f, int64_t lanes) {
  FrameDim dims[4] = {};
  for (int k = 0; k < 4; ++k)
    dims[k] = {f.d[k].in, f.d[k].padLow, (f.d[k].out() - 1) * f.d[k].stride + f.d[k].window};
  return Frame(dims, f.d[3].stride, lanes);
}

/// Of the derivative by x, the elements i = stride * q + phase: their window elements are first + stride * j, j < taps,
/// and meet dy at q + shift - j.
struct Phase {
  int64_t count, first, taps, shift;
  constexpr Phase(const WindowDim &w, int64_t phase)
      : count((w.in - phase + w.stride - 1) / w.stride), first((phase + w.padLow) % w.stride),
        taps(first < w.window ? (w.window - first + w.stride - 1) / w.stride : 0),
        shift((phase + w.padLow) / w.stride) {
    count = count > 0 ? count : 0;
  }
};

/// dy, as the derivative by x reads it.
constexpr Frame frameOfDy(const FourDims &f, int64_t lanes) {
  FrameDim dims[4] = {};
  for (int k = 0; k < 4; ++k) {
    int64_t before = 0, behind = f.d[k].out();
    for (int64_t phase = 0; phase < f.d[k].stride; ++phase) {
      const Phase p(f.d[k], phase);
      before = p.taps - 1 - p.shift > before ? p.taps - 1 - p.shift : before;
      behind = p.count + p.shift > behind ? p.count + p.shift : behind;
    }
    dims[k] = {f.d[k].out(), before, before + behind};
  }
  return Frame(dims, 1, lanes);
}

} // namespace echelon::runtime::detail
