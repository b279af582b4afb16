// Runs a check on every rank and tells what went wrong on which.
#pragma once

#include "runtime/launch/Launch.h"

#include <cstdio>
#include <gtest/gtest.h>
#include <string>

namespace echelon::runtime::test {

/// `check(transport)` throws a std::string where something is wrong; it may run in a process of its own.
template <typename Check> void onRanks(const std::string &transport, int ranks, Check check) {
  LaunchOptions options;
  options.transport = transport;
  options.ranks = ranks;
  options.deadlineSeconds = 60; // busy machines, sanitizers
  options.sharedBytesPerRank = 16 << 20;
  int code = launch(options, [&](Transport &t) {
    try {
      check(t);
      return 0;
    } catch (const std::string &message) {
      std::fprintf(stderr, "rank %d: %s\n", t.rank(), message.c_str());
      std::_Exit(9); // at once: the others may wait for this rank
    }
  });
  EXPECT_EQ(code, 0) << transport << ", " << ranks << " ranks";
}

} // namespace echelon::runtime::test
