// The loops of a pipeline's pass, which a stage does in turns, and what has to be there before them.
#pragma once
#include "ir/ech/Ech.h"
#include "llvm/ADT/SetVector.h"

namespace echelon::pipeline {

/// Whether a stage has turns of it behind those of its pass's forward loop: it goes back, or makes gradients of
/// weights.
bool isLaterInTurns(mlir::Operation *op);

/// What such loops need of their block, and what that needs: all comes before the first turn. Loops in turns, and what
/// those need, are left out.
llvm::SetVector<mlir::Operation *> neededInTurns(llvm::ArrayRef<ech::RepeatOp> later);

} // namespace echelon::pipeline
