// What one core can do, measured beside what is held against it, and how such things are timed.
#pragma once
#include "runtime/program/Clock.h"

#include <algorithm>
#include <cstddef>

namespace echelon::runtime {

/// Fused multiply-adds in registers, GFLOP/s (float).
double peakFlops();
/// Bytes read plus bytes written by y = a * x + y over two arrays of so many floats, GB/s. The default is far more than
/// a cache holds.
double memoryBandwidth(size_t floats = size_t(32) << 20);
/// Bytes copied from one such array to the other, GB/s.
double copyBandwidth(size_t floats = size_t(32) << 20);

/// Seconds that f takes: of samples of at least 20 microseconds, over about `budget` seconds and at least three after
/// one to warm up, the fastest, because what else the machine does only ever adds. On the wall's clock: a thread's own
/// goes back where the machine is a guest and was held up.
template <typename F> double fastest(F f, double budget = 0.05) {
  f();
  double start = secondsNow();
  f();
  int calls = std::clamp(static_cast<int>(20e-6 / (secondsNow() - start)), 1, 1000);
  double best = 1e30;
  start = secondsNow();
  for (int samples = 0; samples < 3 || secondsNow() - start < budget; ++samples) {
    double t = secondsNow();
    for (int i = 0; i < calls; ++i)
      f();
    best = std::min(best, (secondsNow() - t) / calls);
  }
  return best;
}

} // namespace echelon::runtime
