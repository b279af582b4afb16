#include "runtime/profile/Limits.h"

#include <gtest/gtest.h>

using namespace echelon::runtime;

// What is measured is not optimised away: no core has more than 16 vectors of 16 floats a cycle.
TEST(Limits, AreThoseOfAMachine) {
  const size_t floats = size_t(1) << 20;
  for (double limit : {peakFlops(), memoryBandwidth(floats), copyBandwidth(floats)}) {
    EXPECT_GT(limit, 0);
    EXPECT_LT(limit, 5000);
  }
}

// At least three samples after what warms up, however long one takes.
TEST(Limits, SamplesAtLeastThreeTimes) {
  int calls = 0;
  EXPECT_GE(fastest([&] { ++calls; }, 0), 0);
  EXPECT_GE(calls, 5);
}
