// What `recompute auto` comes to: of the policies that leave a rank room, the one under which a step takes least.
#pragma once
#include "frontend/resolve/RunSettings.h"
#include "mlir/IR/BuiltinOps.h"

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

/// Paths of all values that `keep` can name, in the order of the model, of a module whose values are marked with their
/// names; of several that stand for the same values that with the fewest parts, and of these the shortest.
std::vector<std::string> valuesToKeep(mlir::ModuleOp module);

struct RecomputeChoice {
  RecomputeTrial chosen;
  std::vector<RecomputeTrial> others; ///< those that fit, the fastest first, then those that do not, the smallest first
  int64_t limit = 0;                  ///< bytes; 0: none is known
  bool isOfClause = false;            ///< the limit is that of `within`

  bool fits(const RecomputeTrial &trial) const { return !limit || trial.bytes <= limit; }
  std::string text() const; ///< for people
};

} // namespace echelon
