#include "runtime/data/Shuffle.h"
#include "runtime/random/Philox.h"

namespace echelon::runtime {

int64_t shuffledSample(uint64_t seed, int64_t index, int64_t size) {
  constexpr int kRounds = 8;
  const uint64_t epoch = uint64_t(index / size);
  int half = 1; // bits of one half: the domain has 4^half elements
  while (half < 32 && (uint64_t(1) << (2 * half)) < uint64_t(size))
    ++half;
  const uint64_t mask = (uint64_t(1) << half) - 1;
  const RandomKey key = {seed, path_hash("data.order"), epoch};
  uint32_t roundKey[kRounds];
  for (int i = 0; i < kRounds; ++i)
    roundKey[i] = bits_at(key, uint64_t(i));
  uint64_t x = uint64_t(index % size);
  do {
    uint64_t left = x >> half, right = x & mask;
    for (int i = 0; i < kRounds; ++i) {
      const uint64_t mixed = mix64(right + (uint64_t(roundKey[i]) << 32) + uint64_t(i)) >> 32;
      const uint64_t next = left ^ (mixed & mask);
      left = right;
      right = next;
    }
    x = left << half | right;
  } while (x >= uint64_t(size));
  return int64_t(x);
}

} // namespace echelon::runtime
