// Programs of pipelines: what no compiled program has yet, sends and receives of ranks whose texts differ.
#pragma once
#include "test/mutants/messages/Oracle.h"

namespace echelon::test {

struct PipelineShape {
  int stages = 2, replicas = 1, microBatches = 2;
  bool inTurn = false; ///< forward and backward in turn, as early as possible; else all forward first
};

/// Stage by stage: receives are started a slot ahead, two buffers a direction are sent from, gradients of a stage are
/// summed over its replicas beside the last slots, and the norm over all ranks. `compute`, `message`: operations that
/// stand for all.
Ranks pipeline(const PipelineShape &shape, mlir::Operation *compute, mlir::Operation *message);

} // namespace echelon::test
