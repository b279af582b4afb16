// What one core can do, under the names that the benchmarks use.
#pragma once
#include "runtime/profile/Limits.h"

namespace echelon::bench {
using runtime::fastest;
using runtime::memoryBandwidth;
using runtime::peakFlops;
using runtime::threadSeconds;
} // namespace echelon::bench
