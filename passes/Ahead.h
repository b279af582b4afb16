// What a loop of a program does for an iteration ahead of it.
#pragma once
#include "ir/rt/Rt.h"

namespace echelon {

/// Whether all that a loop does is of one function of the program, whose text then has it whole.
bool isOfOnePhase(rt::ForOp loop);
/// The rt.next of a loop that does something ahead; of others made, as the first that an iteration does, in the phase
/// of `like`, with the block that is to be filled.
rt::NextOp nextOf(rt::ForOp loop, mlir::Operation *like);

} // namespace echelon
