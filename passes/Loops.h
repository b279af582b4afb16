// Loops rebuilt with other parts: what they carry, take slices of, stack up, sum.
#pragma once
#include "ir/ech/Ech.h"
#include "mlir/IR/PatternMatch.h"

namespace echelon {

/// `wanted`, or with a number after it, so that no value and no loop of the step has an axis of this name.
mlir::StringAttr freeAxis(ech::StepOp step, llvm::StringRef wanted);

/// Which parts of a loop stay.
struct LoopParts {
  llvm::SmallVector<bool> carried, slices, stacks, sums;
  explicit LoopParts(ech::RepeatOp op)
      : carried(op.getCarried().size(), true), slices(op.getSlices().size(), true), stacks(op.getStacks().size(), true),
        sums(op.getSums().size(), true) {}
};

/// The loop with these parts alone, the others having no users left, and after them slices of `slices` and stacks of
/// `stacked`, values of its body.
ech::RepeatOp rebuildLoop(ech::RepeatOp op, const LoopParts &parts, mlir::RewriterBase &rewriter,
                          mlir::ArrayRef<mlir::Value> slices = {}, mlir::ArrayRef<mlir::Value> stacked = {});

/// The loop with what its used results need and nothing else, in the loops within it too; null where none is used.
ech::RepeatOp pruneLoop(ech::RepeatOp op, mlir::RewriterBase &rewriter);

/// A loop behind this one makes what `moves` says of its carried arguments and of what it yields, and takes slices of
/// `stacked`, values that this one makes and stacks up. The two are without what nobody reads, or null.
std::pair<ech::RepeatOp, ech::RepeatOp> cutLoop(ech::RepeatOp op, llvm::function_ref<bool(mlir::Value)> moves,
                                                mlir::ArrayRef<mlir::Value> stacked, mlir::RewriterBase &rewriter);

} // namespace echelon
