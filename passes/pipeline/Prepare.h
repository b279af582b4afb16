// What a pass through stages needs before its operations go to them.
#pragma once
#include "mlir/IR/IRMapping.h"
#include "passes/pipeline/Stages.h"

namespace echelon::pipeline {

/// On operations of the backward pass whose results no stage waits for (Weights.h).
inline constexpr llvm::StringLiteral kOfWeights = "dist.of_weights";
/// The passes that a stage makes of a micro batch, in order.
enum class Part { Forward, Backward, Weights };
Part partOf(mlir::Operation *op);

/// Moves operations to the end of a loop's body, where other values stand for some that they read.
void moveInto(mlir::Block &body, llvm::ArrayRef<mlir::Operation *> ops, const mlir::IRMapping &there);

/// What follows from the backward pass is of it.
void settlePhases(ech::RepeatOp pass);
/// Free values that both the forward and the backward pass read are made in each.
void separateFree(ech::RepeatOp pass);
/// What the pass carries, a maximum or minimum over samples, is each stage's own until its end; `why`: of the message
/// then.
void separateExtremes(ech::RepeatOp pass, const Stages &stages, llvm::StringRef why);
/// What one stage adds to a sum of the pass, and what another one does, as to the gradient of a parameter that both
/// read, are two sums, added up behind the pass. The pass with these; null where it stays as it is.
ech::RepeatOp separateSums(ech::RepeatOp pass, const Stages &stages, llvm::StringRef over);
/// Cuts the derivatives in two: what the stages hand back, `rides` among it, and the rest, the gradients of weights,
/// which no other stage waits for; these operations are marked.
void splitWeights(ech::RepeatOp pass, const Stages &stages, llvm::ArrayRef<Ride> rides);

} // namespace echelon::pipeline
