// A stream of 16-bit tokens has large and small numbers at even and at odd places alike. In one of 32 bits the odd
// 16-bit numbers are upper halves: 0, or a few. In one of 64 bits the odd 32-bit numbers are 0. A reading counts only
// where at least kEnough numbers speak for it: of fewer, chance may make any pattern.
#include "runtime/data/TokenWidth.h"
#include "runtime/data/Content.h"

#include <algorithm>
#include <cmath>
#include <limits>

namespace echelon::runtime {

namespace {

constexpr int64_t kEnough = 16;

/// Numbers of 16 bits at even and at odd places.
struct Halves {
  int64_t nonzero[2] = {}, large[2] = {}; // large: what the upper half of a token of 32 bits is not, 16 or more
};

struct Counts {
  Halves halves;
  int64_t of32 = 0, beyond32 = 0;               // numbers of 32 bits, and those that no token may be
  int64_t of64 = 0, tokens64 = 0, others64 = 0; // numbers of 64 bits: from 1 to 2^31 - 1; neither those, nor -2^31 … 0
};

/// Looks at the file until there is enough to tell by.
Counts countHalves(const FileBytes &file, int64_t below) {
  Counts counts;
  const uint32_t bound = below > 0 && below < (int64_t(1) << 31) ? uint32_t(below) : uint32_t(1) << 31;
  const size_t whole = file.size() / 8 * 8;
  constexpr size_t kBlock = 1 << 16;
  constexpr int64_t kClear = 4096;
  for (size_t start = 0; start < whole; start += kBlock) {
    for (size_t at = start; at < std::min(whole, start + kBlock); at += 8) {
      for (size_t i = 0; i < 4; ++i) {
        const uint16_t word = numberAt<uint16_t>(file, at + 2 * i);
        counts.halves.nonzero[i % 2] += word != 0;
        counts.halves.large[i % 2] += word >= 16;
      }
      for (size_t i = 0; i < 2; ++i)
        counts.beyond32 += numberAt<uint32_t>(file, at + 4 * i) >= bound;
      const int64_t both = numberAt<int64_t>(file, at);
      counts.tokens64 += both > 0 && both == int32_t(both);
      counts.others64 += both != int32_t(both);
    }
    counts.of32 = int64_t(std::min(whole, start + kBlock)) / 4;
    counts.of64 = counts.of32 / 2;
    if (std::min(counts.halves.nonzero[0], counts.of32 - counts.of64) >= kClear)
      break;
  }
  for (size_t at = whole; at + 2 <= file.size(); at += 2) { // less than a number of 64 bits
    const uint16_t word = numberAt<uint16_t>(file, at);
    counts.halves.nonzero[at / 2 % 2] += word != 0;
    counts.halves.large[at / 2 % 2] += word >= 16;
  }
  if (file.size() - whole >= 4) {
    ++counts.of32;
    counts.beyond32 += numberAt<uint32_t>(file, whole) >= bound;
  }
  return counts;
}

/// Whether the file reads as real numbers that are all whole.
template <class T> bool isWholeReals(const FileBytes &file) {
  const size_t count = std::min<size_t>(file.size() / sizeof(T), 4096);
  int64_t positive = 0;
  for (size_t i = 0; i < count; ++i) {
    const T value = numberAt<T>(file, i * sizeof(T));
    if (!(value >= 0 && value < T(1 << 24) && value == std::floor(value)))
      return false;
    positive += value > 0;
  }
  return file.size() % sizeof(T) == 0 && positive >= kEnough;
}

bool isBalanced(const int64_t (&counts)[2]) {
  const int64_t low = std::min(counts[0], counts[1]), high = std::max(counts[0], counts[1]);
  return high < kEnough || 2 * low >= high;
}

} // namespace

TokenWidth widthOf(const FileBytes &file, int64_t below) {
  const size_t size = file.size();
  if (size % 2 != 0)
    return {0, "it has " + std::to_string(size) + " bytes, and tokens of 16, 32 or 64 bits take an even number"};
  if (isWholeReals<float>(file))
    return {0, "its numbers look like float32; save array.astype('uint16') or 'uint32'"};
  if (isWholeReals<double>(file))
    return {0, "its numbers look like float64; save array.astype('uint16') or 'uint32'"};
  const Counts counts = countHalves(file, below);
  const auto &nonzero = counts.halves.nonzero, &large = counts.halves.large;
  if (nonzero[0] + nonzero[1] == 0)
    return {0, "all of its numbers are 0"};
  const std::string cut = "the last of them is cut off, for the file has " + std::to_string(size) + " bytes";
  if (counts.others64 == 0 && counts.of64 > 0) {
    if (counts.tokens64 < kEnough)
      return {0, "every second 32-bit number is 0, as in tokens of 64 bits, but there are too few to tell"};
    return size % 8 == 0 ? TokenWidth{64} : TokenWidth{0, "it looks like tokens of 64 bits, and " + cut};
  }
  const bool upperHalves = nonzero[1] == 0 || (large[1] == 0 && large[0] >= kEnough && counts.beyond32 == 0);
  if (upperHalves) {
    if (nonzero[0] < kEnough)
      return {0, "every second 16-bit number is 0, as in tokens of 32 bits, but there are too few to tell"};
    return size % 4 == 0 ? TokenWidth{32} : TokenWidth{0, "it looks like tokens of 32 bits, and " + cut};
  }
  const bool isNot32 = size % 4 != 0 || 2 * counts.beyond32 >= counts.of32 || counts.beyond32 >= kEnough;
  if (isNot32 && isBalanced(nonzero) && isBalanced(large))
    return {16};
  return {0, isNot32 ? "its 16-bit numbers are of another kind at odd places than at even ones"
                     : "they may be tokens of 16 or of 32 bits"};
}

} // namespace echelon::runtime
