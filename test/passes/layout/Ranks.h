// All ranks of a laid-out step, run on numbers: each holds of every value only what its type says; what it does not
// hold is NaN, so that a read of it shows.
#pragma once
#include "ir/dist/State.h"
#include "test/passes/layout/Array.h"
#include <map>

namespace echelon::test {

/// What a step left behind, as whole values.
struct Outcome {
  std::map<std::string, double> reports;
  std::map<std::string, Array> written;   // variables
  std::map<std::string, Array> gradients; // where the step has ech.gradient
};

/// Whole start values: inputs and variables by name.
using Feed = std::map<std::string, Array>;

/// Runs the step of this name on all ranks of the module's mesh (one, without a mesh). An empty text is success: what
/// went wrong otherwise (replicas differ, a rank reads what it has not).
std::string runStep(mlir::ModuleOp module, llvm::StringRef step, const Feed &feed, Outcome &outcome,
                    const Surroundings &around = {});

/// Messages of the module: kind and mesh axes, e.g. "all_gather tp", with how often each runs a step.
std::map<std::string, int64_t> countMessages(mlir::ModuleOp module, llvm::StringRef step);

} // namespace echelon::test
