// Runs a test's body under several orders of blocks, threads and streams, at first with all that a launch does not
// declare hidden from it.
#pragma once
#include "runtime/cuda/host/Emulation.h"

#include <gtest/gtest.h>

namespace echelon::cuda {

template <typename Body> void underSeeds(Body body) {
  for (uint64_t seed : {3, 0, 1, 2}) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    setSeed(seed);
    setIsolation(seed == 3);
    body();
  }
  setIsolation(false);
  EXPECT_EQ(racesFound(), 0);
}

} // namespace echelon::cuda
