// Counter-based random numbers: Philox4x32-10 (Salmon, Moraes, Dror, Shaw, "Parallel random numbers: as easy as 1, 2,
// 3", SC 2011).
//
// A value is a function of (seed, path, step, logical index) and of nothing else, so that no layout, world size or
// order of evaluation changes it. `path` names the statement or parameter, the index is linear over the logical axes in
// declared order.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>

namespace echelon::runtime {

struct PhiloxBlock {
  uint32_t word[4];
};

/// Ten rounds of Philox4x32 on a 128-bit counter (word 0 lowest) with a 64-bit key.
inline PhiloxBlock philox4x32(PhiloxBlock counter, uint32_t key0, uint32_t key1) {
  for (int round = 0; round < 10; ++round) {
    const uint64_t p0 = uint64_t(0xD2511F53u) * counter.word[0];
    const uint64_t p1 = uint64_t(0xCD9E8D57u) * counter.word[2];
    counter = {{uint32_t(p1 >> 32) ^ counter.word[1] ^ key0, uint32_t(p1), uint32_t(p0 >> 32) ^ counter.word[3] ^ key1,
                uint32_t(p0)}};
    key0 += 0x9E3779B9u;
    key1 += 0xBB67AE85u;
  }
  return counter;
}

/// The finalizer of SplitMix64: every input bit reaches every output bit.
constexpr uint64_t mix64(uint64_t x) {
  x = (x ^ (x >> 30)) * 0xBF58476D1CE4E5B9ull;
  x = (x ^ (x >> 27)) * 0x94D049BB133111EBull;
  return x ^ (x >> 31);
}

/// The 64-bit hash (FNV-1a, then mixed) by which a path or statement enters the key. A constant expression, so that
/// generated programs write `path_hash("layer.attn.wq")`.
constexpr uint64_t path_hash(std::string_view path) {
  uint64_t h = 0xCBF29CE484222325ull;
  for (char c : path)
    h = (h ^ uint8_t(c)) * 0x100000001B3ull;
  return mix64(h);
}

/// Which stream of numbers.
struct RandomKey {
  uint64_t seed;
  uint64_t path; // path_hash(…)
  uint64_t step; // 0 for start values

  /// Philox's key.
  uint64_t stream() const { return mix64(seed + 0x9E3779B97F4A7C15ull) ^ path; }
};

/// The block that holds the values of logical indices 4 * block … 4 * block + 3.
inline PhiloxBlock random_block(const RandomKey &key, uint64_t block) {
  const uint64_t k = key.stream();
  return philox4x32({{uint32_t(block), uint32_t(block >> 32), uint32_t(key.step), uint32_t(key.step >> 32)}},
                    uint32_t(k), uint32_t(k >> 32));
}

/// Uniform in [0, 1), a multiple of 2^-24: the same number in float and in double.
inline double uniform_from(uint32_t word) { return double(word >> 8) * 0x1p-24; }

inline double uniform_at(const RandomKey &key, uint64_t index) {
  return uniform_from(random_block(key, index >> 2).word[index & 3]);
}

/// 32 random bits of a logical index.
inline uint32_t bits_at(const RandomKey &key, uint64_t index) { return random_block(key, index >> 2).word[index & 3]; }

/// Standard normal, by Box-Muller in double: words 0, 1 of a block give the values of its indices 0 and 1, words 2, 3
/// the rest.
double normal_at(const RandomKey &key, uint64_t index);

/// Normal: a + b * n(0, 1) · Uniform: in [a, b) · Keep: b with probability a, else 0 (the masks of dropout and survive:
/// kept where the uniform number is below a).
enum class Distribution { Normal, Uniform, Keep };

/// One axis of a slice in storage order: `size` elements held here from logical coordinate `offset` on; one step along
/// the axis moves the logical index by `stride` (the product of the logical sizes of the axes declared after it). The
/// position in a `repeat` is an axis of size 1; `batch` counts in the global batch, micro batches before this one
/// included.
struct SliceAxis {
  int64_t size;
  int64_t offset;
  int64_t stride;
};

/// Fills dst (rank axes, the last one contiguous). Computed in double and rounded to T, so that the float value is the
/// double value rounded. T: float, double. No axes: one value.
template <class T>
void fill_random(T *dst, const RandomKey &key, Distribution kind, double a, double b, const SliceAxis *axes, int rank);

template <class T, size_t N>
void fill_random(T *dst, const RandomKey &key, Distribution kind, double a, double b, const SliceAxis (&axes)[N]) {
  fill_random(dst, key, kind, a, b, axes, int(N));
}

extern template void fill_random(float *, const RandomKey &, Distribution, double, double, const SliceAxis *, int);
extern template void fill_random(double *, const RandomKey &, Distribution, double, double, const SliceAxis *, int);

} // namespace echelon::runtime
