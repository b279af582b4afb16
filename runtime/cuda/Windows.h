// Windows over a plane of up to four dimensions, as kernels of pools and convolutions walk them.
#pragma once
#include "runtime/cuda/Device.h"
#include "runtime/kernels/ConvShape.h"
#include "runtime/launch/Fail.h"

#include <climits>
#include <string>

namespace echelon::cuda {

/// A runtime::WindowDim in short numbers, whose divisions the device does faster.
struct Window {
  int32_t in = 1, window = 1, stride = 1, padLow = 0, out = 1;
};

/// Leading dimensions of size 1 make it four.
struct Windows {
  Window d[4];
  int64_t in = 1, window = 1, out = 1; // elements of a plane of x, of a window, of a plane of y

  Windows(const char *what, const runtime::WindowDim *dims, int rank) {
    if (rank < 1 || rank > runtime::kMaxWindowRank)
      runtime::fail(std::string(what) + " over " + std::to_string(rank) + " window dimensions; 1 to 4 are supported");
    for (int k = 0; k < rank; ++k) {
      const runtime::WindowDim &from = dims[k];
      d[4 - rank + k] = {static_cast<int32_t>(from.in), static_cast<int32_t>(from.window),
                         static_cast<int32_t>(from.stride), static_cast<int32_t>(from.padLow),
                         static_cast<int32_t>(from.out())};
      in *= from.in, window *= from.window, out *= from.out();
    }
    if (in > INT_MAX || out > INT_MAX)
      runtime::fail(std::string(what) + " of planes of more than 2^31 - 1 elements");
  }
};

/// [lo, hi) of one dimension.
struct Span {
  int32_t lo, hi;
};

/// Which elements of x window `o` covers.
DEVICE Span covered_by(const Window &w, int32_t o) {
  const int32_t first = o * w.stride - w.padLow, end = first + w.window;
  return {first > 0 ? first : 0, end < w.in ? end : w.in};
}
/// Which windows cover element i of x.
DEVICE Span covering(const Window &w, int32_t i) {
  const int32_t last = i + w.padLow, least = last - w.window + 1, end = last / w.stride + 1;
  return {least > 0 ? (least + w.stride - 1) / w.stride : 0, end < w.out ? end : w.out};
}

/// spans[k] = of(d[k], coordinate k of `at` in a plane of x or of y), the last one fastest.
template <typename Of> DEVICE void spans_at(const Windows &w, int32_t at, bool inX, Span (&spans)[4], Of of) {
  UNROLL for (int k = 3; k >= 0; --k) {
    const int32_t size = inX ? w.d[k].in : w.d[k].out;
    spans[k] = of(w.d[k], at % size);
    at /= size;
  }
}

/// Calls body(position in the plane of x, or of y) for all that lies in the spans, lowest first.
template <typename Body> DEVICE void over_spans(const Windows &w, bool inX, const Span (&spans)[4], Body body) {
  for (int32_t i0 = spans[0].lo; i0 < spans[0].hi; ++i0)
    for (int32_t i1 = spans[1].lo; i1 < spans[1].hi; ++i1)
      for (int32_t i2 = spans[2].lo; i2 < spans[2].hi; ++i2) {
        const int32_t row = inX ? ((i0 * w.d[1].in + i1) * w.d[2].in + i2) * w.d[3].in
                                : ((i0 * w.d[1].out + i1) * w.d[2].out + i2) * w.d[3].out;
        for (int32_t i3 = spans[3].lo; i3 < spans[3].hi; ++i3)
          body(row + i3);
      }
}

} // namespace echelon::cuda
