#include "runtime/random/Philox.h"

#include <algorithm>
#include <cmath>

namespace echelon::runtime {

namespace {

constexpr double kTwoPi = 6.28318530717958647692;
constexpr int kLanes = 16;  // blocks computed side by side, so that the rounds vectorise
constexpr int kBlocks = 64; // blocks in one buffer

/// Box-Muller. (word + 1/2) / 2^32 lies in (0, 1), so the logarithm is finite and |value| < 6.8.
inline void normalPair(uint32_t w0, uint32_t w1, double *out) {
  const double radius = std::sqrt(-2.0 * std::log((double(w0) + 0.5) * 0x1p-32));
  const double angle = kTwoPi * (double(w1) * 0x1p-32);
  out[0] = radius * std::cos(angle);
  out[1] = radius * std::sin(angle);
}

/// words: (kLanes, 4), the blocks first … first + kLanes - 1 of random_block, lane by lane.
void randomLanes(const RandomKey &key, uint64_t first, uint32_t *words) {
  const uint64_t k = key.stream();
  uint32_t c0[kLanes], c1[kLanes], c2[kLanes], c3[kLanes];
  for (int i = 0; i < kLanes; ++i) {
    c0[i] = uint32_t(first + uint64_t(i));
    c1[i] = uint32_t((first + uint64_t(i)) >> 32);
    c2[i] = uint32_t(key.step);
    c3[i] = uint32_t(key.step >> 32);
  }
  uint32_t key0 = uint32_t(k), key1 = uint32_t(k >> 32);
  for (int round = 0; round < 10; ++round) {
    for (int i = 0; i < kLanes; ++i) {
      const uint64_t p0 = uint64_t(0xD2511F53u) * c0[i];
      const uint64_t p1 = uint64_t(0xCD9E8D57u) * c2[i];
      c0[i] = uint32_t(p1 >> 32) ^ c1[i] ^ key0;
      c1[i] = uint32_t(p1);
      c2[i] = uint32_t(p0 >> 32) ^ c3[i] ^ key1;
      c3[i] = uint32_t(p0);
    }
    key0 += 0x9E3779B9u;
    key1 += 0xBB67AE85u;
  }
  for (int i = 0; i < kLanes; ++i) {
    words[4 * i] = c0[i];
    words[4 * i + 1] = c1[i];
    words[4 * i + 2] = c2[i];
    words[4 * i + 3] = c3[i];
  }
}

/// Values of the logical indices 4 * block … 4 * (block + blocks) - 1. The one place where words become values: fma is
/// written out, so that no compiler decides on a rounding by where a value stands.
void blockValues(const RandomKey &key, uint64_t block, int blocks, Distribution kind, double a, double b, double *out) {
  uint32_t words[4 * (kBlocks + kLanes)];
  for (int i = 0; i < blocks; i += kLanes)
    randomLanes(key, block + uint64_t(i), words + 4 * i);
  if (kind == Distribution::Keep) {
    for (int i = 0; i < 4 * blocks; ++i)
      out[i] = uniform_from(words[i]) < a ? b : 0.0;
    return;
  }
  if (kind == Distribution::Uniform) {
    for (int i = 0; i < 4 * blocks; ++i)
      out[i] = std::fma(b - a, uniform_from(words[i]), a);
    return;
  }
  for (int i = 0; i < 4 * blocks; i += 2) {
    normalPair(words[i], words[i + 1], out + i);
    out[i] = std::fma(b, out[i], a);
    out[i + 1] = std::fma(b, out[i + 1], a);
  }
}

/// One row: count values from logical index `first` on, `stride` apart.
template <class T>
void fillRow(T *dst, const RandomKey &key, Distribution kind, double a, double b, uint64_t first, uint64_t stride,
             int64_t count) {
  double values[4 * kBlocks];
  if (stride != 1) {
    for (int64_t i = 0; i < count; ++i) {
      const uint64_t index = first + uint64_t(i) * stride;
      blockValues(key, index >> 2, 1, kind, a, b, values);
      dst[i] = T(values[index & 3]);
    }
    return;
  }
  int64_t done = 0;
  while (done < count) {
    const uint64_t index = first + uint64_t(done);
    const int64_t skip = int64_t(index & 3);
    const int blocks = int(std::min<int64_t>(kBlocks, (skip + count - done + 3) / 4));
    blockValues(key, index >> 2, blocks, kind, a, b, values);
    const int64_t n = std::min(count - done, 4 * int64_t(blocks) - skip);
    for (int64_t i = 0; i < n; ++i)
      dst[done + i] = T(values[skip + i]);
    done += n;
  }
}

} // namespace

double normal_at(const RandomKey &key, uint64_t index) {
  double values[4];
  blockValues(key, index >> 2, 1, Distribution::Normal, 0, 1, values);
  return values[index & 3];
}

template <class T>
void fill_random(T *dst, const RandomKey &key, Distribution kind, double a, double b, const SliceAxis *axes, int rank) {
  uint64_t base = 0;
  for (int i = 0; i < rank; ++i) {
    if (axes[i].size <= 0)
      return;
    base += uint64_t(axes[i].offset) * uint64_t(axes[i].stride);
  }
  if (rank == 0)
    return fillRow(dst, key, kind, a, b, base, 1, 1);
  // Trailing axes that are whole, and so contiguous in the logical index, make one row.
  int last = rank - 1;
  int64_t row = axes[last].size;
  const uint64_t stride = uint64_t(axes[last].stride);
  while (last > 0 && axes[last - 1].stride == int64_t(stride) * row)
    row *= axes[--last].size;
  int64_t rows = 1;
  for (int i = 0; i < last; ++i)
    rows *= axes[i].size;
  for (int64_t r = 0; r < rows; ++r) {
    uint64_t index = base;
    for (int64_t i = last, rest = r; i-- > 0;) {
      index += uint64_t(rest % axes[i].size) * uint64_t(axes[i].stride);
      rest /= axes[i].size;
    }
    fillRow(dst + r * row, key, kind, a, b, index, stride, row);
  }
}

template void fill_random(float *, const RandomKey &, Distribution, double, double, const SliceAxis *, int);
template void fill_random(double *, const RandomKey &, Distribution, double, double, const SliceAxis *, int);

} // namespace echelon::runtime
