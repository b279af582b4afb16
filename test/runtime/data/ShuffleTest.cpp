#include "runtime/data/Shuffle.h"

#include <gtest/gtest.h>

#include <cmath>
#include <vector>

using namespace echelon::runtime;

namespace {

// Each epoch sees each sample once, for sizes that are powers of four, next to them, and tiny.
TEST(Shuffle, EveryEpochIsAPermutation) {
  for (int64_t size : {1, 2, 3, 4, 5, 15, 16, 17, 100, 1000, 4097})
    for (int64_t epoch : {0, 1, 7}) {
      std::vector<int> seen(static_cast<size_t>(size));
      for (int64_t i = 0; i < size; ++i)
        ++seen.at(size_t(shuffledSample(42, epoch * size + i, size)));
      for (int n : seen)
        EXPECT_EQ(n, 1) << "size " << size << ", epoch " << epoch;
    }
}

// Epochs and seeds order differently, and every sample comes first about equally often.
TEST(Shuffle, OrdersDiffer) {
  const int64_t size = 1000;
  int sameEpoch = 0, sameSeed = 0;
  for (int64_t i = 0; i < size; ++i) {
    sameEpoch += shuffledSample(42, i, size) == shuffledSample(42, size + i, size);
    sameSeed += shuffledSample(42, i, size) == shuffledSample(43, i, size);
  }
  EXPECT_LT(sameEpoch, 10); // 1 expected
  EXPECT_LT(sameSeed, 10);
  std::vector<double> first(10);
  for (int epoch = 0; epoch < 10000; ++epoch)
    ++first[size_t(shuffledSample(1, epoch * 10, 10))];
  for (double n : first)
    EXPECT_NEAR(n, 1000, 150);
}

} // namespace
