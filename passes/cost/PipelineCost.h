// How the stages of a pipeline work through micro batches, and how long they wait.
#pragma once
#include "mlir/IR/BuiltinOps.h"
#include <optional>
#include <string>
#include <vector>

namespace echelon {

struct PipelineCost {
  std::string over, axis, schedule; ///< "pp", "layer", "1f1b"
  int64_t stages = 1, chunks = 1, micro = 1;
  int64_t iterations = 1;      ///< of each chunk of a stage, where they have equally many
  std::vector<int64_t> counts; ///< of each chunk, in order, where they have not; else none
  /// What the compiler chose these by: operations of what stands before the repeat, of an iteration, and of what stands
  /// behind it; of a chain, of each repeat in turn.
  std::vector<int64_t> wentBy;
  /// What a stage does in each unit of time: 0, 1, … a forward pass, a, b, … a backward one, A, B, … gradients of
  /// weights apart, '.' nothing. A forward pass takes one unit, a backward one two, or where weights are apart one and
  /// one; of unequal stages as many times that as they have iterations.
  std::vector<std::string> rows;
  double bubble = 0; ///< idle over working time of a stage

  std::string text() const; ///< for people
};

/// Of a lowered module; nothing where it has no stages.
std::optional<PipelineCost> pipelineCost(mlir::ModuleOp module);

} // namespace echelon
