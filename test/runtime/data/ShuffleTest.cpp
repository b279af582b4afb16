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

// Which samples meet in a batch says nothing of where they are in the data: over an epoch of a text's windows, places
// and samples fill a table evenly, and samples that follow each other are not correlated. Fixed seeds, limits of five
// standard deviations.
TEST(Shuffle, IsUniform) {
  const int64_t size = 15686;
  const int cells = 32;
  const double mean = (size - 1) / 2.0, variance = (double(size) * size - 1) / 12;
  double correlations = 0;
  int lags = 0;
  for (uint64_t seed = 1; seed <= 4; ++seed) {
    std::vector<double> x(size);
    std::vector<double> table(cells * cells), places(cells), samples(cells);
    for (int64_t i = 0; i < size; ++i) {
      const int64_t sample = shuffledSample(seed, size + i, size);
      x[size_t(i)] = double(sample) - mean;
      const size_t row = size_t(i * cells / size), column = size_t(sample * cells / size);
      ++table[row * cells + column], ++places[row], ++samples[column];
    }
    double square = 0;
    for (int row = 0; row < cells; ++row)
      for (int column = 0; column < cells; ++column) {
        const double expected = places[size_t(row)] * samples[size_t(column)] / size;
        square += std::pow(table[size_t(row * cells + column)] - expected, 2) / expected;
      }
    const double freedom = (cells - 1) * (cells - 1);
    EXPECT_LT(std::abs(square - freedom) / std::sqrt(2 * freedom), 5) << "seed " << seed;
    for (int64_t lag = 1; lag < 64; ++lag, ++lags) {
      double sum = 0;
      for (int64_t i = 0; i + lag < size; ++i)
        sum += x[size_t(i)] * x[size_t(i + lag)];
      const double apart = (sum / (size - lag) / variance + 1.0 / (size - 1)) * std::sqrt(double(size - lag));
      EXPECT_LT(std::abs(apart), 5) << "seed " << seed << ", " << lag << " apart";
      correlations += apart * apart;
    }
  }
  EXPECT_NEAR(correlations / lags, 1, 5 * std::sqrt(2.0 / lags));
}

} // namespace
