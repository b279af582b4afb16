#include "runtime/profile/Laps.h"

#include <gtest/gtest.h>

using namespace echelon::runtime;

// Laps lie end to end: nothing between the start and the last of them is lost or counted twice.
TEST(Laps, LieEndToEnd) {
  uint64_t waited = 0;
  Laps laps(3, waited);
  const uint64_t before = ticks();
  laps.start();
  const uint64_t started = ticks();
  for (int i = 0; i < 1000; ++i)
    laps.lap(size_t(i % 2));
  const uint64_t ended = ticks();
  laps.lap(2);
  const uint64_t after = ticks();
  uint64_t sum = 0;
  for (const Laps::Sum &entry : laps.all())
    sum += entry.ticks;
  EXPECT_GE(sum, ended - started);
  EXPECT_LE(sum, after - before);
  EXPECT_EQ(laps.all()[0].calls, 500);
  EXPECT_EQ(laps.all()[1].calls, 500);
  EXPECT_EQ(laps.all()[2].calls, 1);
}

// What was waited in a lap is that entry's; what was waited before the start is nobody's.
TEST(Laps, WaitingIsToldApart) {
  uint64_t waited = 5;
  Laps laps(2, waited);
  waited = 100;
  laps.start();
  laps.lap(0);
  waited += 30;
  laps.lap(1);
  laps.lap(0);
  EXPECT_EQ(laps.all()[0].waited, 0u);
  EXPECT_EQ(laps.all()[1].waited, 30u);
  laps.clear();
  EXPECT_EQ(laps.all()[1].waited, 0u);
  EXPECT_EQ(laps.all()[1].calls, 0);
}
