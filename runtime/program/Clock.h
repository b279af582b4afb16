// Wall time, for what is measured and printed.
#pragma once

#include <chrono>

namespace echelon::runtime {

/// Seconds since some moment; never backwards.
inline double secondsNow() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

} // namespace echelon::runtime
