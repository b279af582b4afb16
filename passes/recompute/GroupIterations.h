// Where `recompute` acts: the repeats whose derivative computes again are marked, before it is made.
//
// 1. `full` and `keep`: the outermost repeats.
// 2. `every n layer`: each repeat over layer becomes one over groups, which is marked, around one over the iterations
//    of a group. What the derivative of a group makes again is then the inner loop, with all that its own derivative
//    reads stacked up: n iterations at a time.
//
//   %y = repeat layer = 4 carry(%x) slice(%w) {…}              becomes
//
//   %pairs = relabel %w [layer] -> [layer, layer_in_group]        [layer=2, layer_in_group=2, …]
//   %y = repeat layer = 2 carry(%x) slice(%pairs) {
//     %z = repeat layer_in_group = 2 carry(%xg) slice(%wg) {…}
//     yield carry(%z)
//   } {computes_again}
//
// `layer` stays the outer loop's axis, so that stages of a pipeline take groups, and index(layer) is
// 2 * layer + layer_in_group. A random value counts the positions of all loops around it, the innermost fastest, so
// that it is drawn as before. Sums of iterations are added up in the order of before, too.
#pragma once
#include "ir/ech/Ech.h"
#include "ir/ech/Recompute.h"

namespace echelon {

/// Fails, with an error at the clause, where there is no such repeat, or groups do not divide it.
mlir::LogicalResult groupIterations(ech::StepOp step, const ech::Recompute &clause);

} // namespace echelon
