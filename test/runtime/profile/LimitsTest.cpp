#include "runtime/profile/Limits.h"

#include <gtest/gtest.h>

using namespace echelon::runtime;

// Of one size, whatever the machine: no core adds and multiplies below one operation in 10 ns, none above 16 vectors of
// 16 floats a cycle; a copy is read and written, which is no more than memory takes in and gives.
TEST(Limits, AreThoseOfAMachine) {
  EXPECT_GT(peakFlops(), 0.1);
  EXPECT_LT(peakFlops(), 5000);
  const size_t floats = size_t(1) << 20;
  EXPECT_GT(memoryBandwidth(floats), 0.1);
  EXPECT_LT(memoryBandwidth(floats), 5000);
  EXPECT_GT(copyBandwidth(floats), 0.05);
}
