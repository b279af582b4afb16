// What `recompute auto` comes to: of the policies that leave a rank room, the one under which a step takes least.
#pragma once
#include "frontend/resolve/RunSettings.h"

#include <cstdint>
#include <string>
#include <vector>

namespace echelon {

/// A policy that was compiled and costed.
struct RecomputeTrial {
  frontend::RecomputeSettings policy;
  double seconds = 0; ///< of a step
  int64_t bytes = 0;  ///< that a rank takes, without the copy for snapshots
};

struct RecomputeChoice {
  RecomputeTrial chosen;
  std::vector<RecomputeTrial> others; ///< those that fit, the fastest first, then those that do not, the smallest first
  int64_t limit = 0;                  ///< bytes; 0: none is known
  bool isOfClause = false;            ///< the limit is that of `within`

  bool fits(const RecomputeTrial &trial) const { return !limit || trial.bytes <= limit; }
  std::string text() const; ///< for people
};

} // namespace echelon
