// The order of training: an endless sequence of permutations of the samples, one an epoch, in constant memory.
#pragma once

#include <cstdint>

namespace echelon::runtime {

/// The sample (in 0 … size - 1) at place `index` of the training stream. Over each epoch, index / size, it is a
/// permutation: a Feistel network keyed by (seed, epoch) on the next power of four, walked until it falls inside (Black
/// and Rogaway, "Ciphers with arbitrary finite domains", CT-RSA 2002).
int64_t shuffledSample(uint64_t seed, int64_t index, int64_t size);

} // namespace echelon::runtime
