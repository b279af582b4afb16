// Loops whose iterations need totals over the passes are cut in two (loop distribution), so that what is left in a loop
// is of one pass, and totals are outside of it:
// - A total that no parameter enters, as the number of kept positions in each layer, is stacked up by a loop of its own
//   before the one that needs it, which takes its slices.
// - What follows from totals and touches no sample, as a masked mean in each layer under evaluation, moves into a loop
//   after, over the stacked sums.
#pragma once
#include "passes/microbatch/Dependence.h"

namespace echelon {

/// Afterwards `Dependences` of the step finds no value that is needed as a total inside a loop; or it has told why not.
mlir::LogicalResult distributeLoops(ech::StepOp step, const Time &time);

} // namespace echelon
