// A (batch, group, head) slice of attention: what both passes know of it.
#pragma once
#include "runtime/kernels/Attention.h"
#include "runtime/kernels/cpu/PackedPanels.h"
#include "runtime/kernels/cpu/Prefetch.h"
#include <vector>

namespace echelon::runtime::detail {

constexpr int64_t kKeys = 256; // of a block: in float, keys and values of 64 are 128 KiB of the L2 cache
template <typename T> constexpr T kMinusInf = -std::numeric_limits<T>::infinity();

/// Which of the (batch, group, head) slices is meant.
struct Slice {
  int64_t b, g, h;
  int64_t in(const HeadStrides &s) const { return b * s.batch + g * s.group + h * s.head; }
  int64_t in(const ScoreStrides &s) const { return b * s.batch + g * s.group + h * s.head; }
  int64_t row(const AttentionShape &s) const { return ((b * s.group + g) * s.head + h) * (s.apart ? s.apart : s.seq); }
};

template <typename Body> void overSlices(const AttentionShape &shape, Body body) {
  for (int64_t b = 0; b < shape.batch; ++b)
    for (int64_t g = 0; g < shape.group; ++g)
      for (int64_t h = 0; h < shape.head; ++h)
        body(Slice{b, g, h});
}

/// Makes `at` the slice that comes after it; false after the last.
inline bool advance(const AttentionShape &shape, Slice &at) {
  if (++at.h == shape.head)
    at.h = 0, ++at.g;
  if (at.g == shape.group)
    at.g = 0, ++at.b;
  return at.b < shape.batch;
}

/// How many keys, from the first, the queries up to and without `end` may see.
inline int64_t keysSeen(const AttentionShape &shape, int64_t end) {
  return shape.causal ? std::max<int64_t>(0, std::min(shape.past, end + shape.offset)) : shape.past;
}

/// A panel of queries i0 .. i0 + rows and a block of keys from j0: which scores there are.
struct Panel {
  int64_t i0, rows, j0, cols; // cols: what the last query sees of the block
  int64_t seen(const AttentionShape &shape, int64_t r) const {
    return shape.causal ? std::clamp<int64_t>(i0 + r + shape.offset + 1 - j0, 0, cols) : cols;
  }
};

/// Adds the bias to scores: (rows, cols), ld apart, and puts -inf where the mask forbids to look.
template <typename T>
void biasAndMask(T *scores, int64_t ld, const AttentionShape &shape, Slice at, const Panel &panel, const uint8_t *mask,
                 const T *bias) {
  for (int64_t r = 0; r < panel.rows; ++r) {
    T *row = scores + r * ld;
    const int64_t i = panel.i0 + r;
    if (bias) {
      const T *b = bias + at.in(shape.bias) + i * shape.bias.seq + panel.j0 * shape.bias.past;
      for (int64_t c = 0; c < panel.cols; ++c)
        row[c] += b[c * shape.bias.past];
    }
    if (mask) {
      const uint8_t *m = mask + at.in(shape.mask) + i * shape.mask.seq + panel.j0 * shape.mask.past;
      for (int64_t c = 0; c < panel.cols; ++c)
        row[c] = m[c * shape.mask.past] ? row[c] : kMinusInf<T>;
    }
  }
}

/// Scratch of this thread, kept between calls.
template <typename T> struct Workspace {
  std::vector<T> kept[8];
  T *get(int which, int64_t n) {
    std::vector<T> &v = kept[which];
    if (static_cast<int64_t>(v.size()) < n)
      v.resize(n);
    return v.data();
  }
};
template <typename T> Workspace<T> &workspace() {
  thread_local Workspace<T> w;
  return w;
}

/// Asks for what the next slice reads and writes while this one is computed: its rows are short and far apart, which
/// processors do not foresee. With 64 positions of 32 that takes a quarter of the time away (Zen 4).
template <typename T> class NextSlice {
public:
  /// All has been asked for after as many calls of some() as a block of keys has panels of queries.
  explicit NextSlice(const AttentionShape &shape) : turns((shape.seq + kTileRows - 1) / kTileRows) {}
  void needs(const T *x, int64_t rows, int64_t step, int64_t length) {
    // Larger ones would drive what this slice needs out of the L2 cache, and each of their lines is used more often.
    constexpr int64_t mostBytes = 32 << 10;
    if (rows * length * int64_t(sizeof(T)) <= mostBytes && count < kMost)
      matrices[count++] = Prefetch<T>(x, rows, step, length, turns);
  }
  void some() {
    for (int i = 0; i < count; ++i)
      matrices[i].some();
  }

private:
  int64_t turns;
  static constexpr int kMost = 8; // three, their derivatives, the result and its derivative
  Prefetch<T> matrices[kMost];
  int count = 0;
};

/// The rows of p and ds lie this far apart: whole strips, room for zeros that fill a panel of keys, and no power of
/// two.
template <typename T> int64_t rowOf(int64_t keys) { return round_up(keys, kStrip<T>) + kStrip<T>; }

/// What both passes read: all of it, or one slice's q, k and v.
template <typename T> struct Operands {
  const AttentionShape &shape;
  const AttentionStrides &strides;
  const T *q, *k, *v;
  const uint8_t *mask;
  const T *bias;
  Slice at = {};
  Operands of(Slice slice) const {
    return {shape, strides, q + slice.in(strides.q), k + slice.in(strides.k), v + slice.in(strides.v), mask,
            bias,  slice};
  }
  void ask(NextSlice<T> &next) const {
    next.needs(q, shape.seq, strides.q.row, shape.key);
    next.needs(k, shape.past, strides.k.row, shape.key);
    next.needs(v, shape.past, strides.v.row, shape.value);
  }
};

} // namespace echelon::runtime::detail
