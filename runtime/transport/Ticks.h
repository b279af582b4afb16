#pragma once

#include <chrono>
#include <cstdint>

#if defined(__x86_64__)
#include <x86intrin.h>
#endif

namespace echelon::runtime {

/// A counter that runs at one speed, on all cores alike: the time stamp counter, which takes some 10 ns to read.
inline uint64_t ticks() {
#if defined(__x86_64__)
  return __rdtsc();
#else
  return uint64_t(std::chrono::steady_clock::now().time_since_epoch().count());
#endif
}

} // namespace echelon::runtime
