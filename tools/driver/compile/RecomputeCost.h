// What `recompute` keeps, costs and saves, for `plan`.
#pragma once
#include "tools/driver/compile/Compilation.h"

namespace echelon {

struct RecomputeCost {
  std::string policy;                         ///< as the clause has it; "none" without one
  std::vector<std::string> kept;              ///< names of values
  double operationsAgain = 0;                 ///< floating-point operations more, as a share of a step's without it
  int64_t workBytes = 0, workBytesOfNone = 0; ///< of a rank's arena for what a step computes

  std::string sentence() const; ///< empty where the policy is none
};

/// Of a compilation that is lowered to `rt`. The same spec without the clause is compiled beside it; nothing where that
/// does not compile.
std::optional<RecomputeCost> recomputeCost(const Compilation &compilation, int64_t workBytes);

} // namespace echelon
