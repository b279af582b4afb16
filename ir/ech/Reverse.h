// Reverse-mode differentiation of blocks of ech operations. Loops are derived loop to loop.
#pragma once
#include "ir/ech/Build.h"
#include "llvm/ADT/MapVector.h"
#include "llvm/ADT/SetVector.h"

namespace echelon::ech {

/// The cotangents of a block's values. Usage: `follow` where derivatives may flow to, `add` the seeds, `run`, ask.
class Reverse {
public:
  /// Marks what depends on the parameters read in `block`: only that has cotangents.
  void follow(mlir::Block &block, llvm::function_ref<bool(ReadOp)> isParameter);
  bool isActive(mlir::Value value) const { return active.contains(value); }

  /// Adds to the cotangent of an active value; others are left alone.
  void add(Build &build, mlir::Value value, mlir::Value cotangent);
  /// The cotangent so far; null where nothing has flowed.
  mlir::Value cotangent(mlir::Value value) const { return cotangents.lookup(value); }

  /// Goes through the block's operations from last to first and builds their derivatives at `build`.
  mlir::LogicalResult run(mlir::Block &block, Build &build);

  /// Of repeats that are marked kComputesAgain: the names of what they keep, those of kKeptAs among them.
  llvm::SetVector<mlir::StringAttr> kept;
  /// How many operations their derivatives make again that are not free.
  int64_t operationsAgain = 0;

private:
  mlir::LogicalResult visit(mlir::Operation *op, Build &build);
  mlir::LogicalResult visitRepeat(RepeatOp op, Build &build); // ops/RepeatDerivative.cpp

  llvm::DenseSet<mlir::Value> active;
  llvm::MapVector<mlir::Value, mlir::Value>
      cotangents; // in the order of first sight, so that output is the same each time
};

/// The name that the user gave a value, "" where there is none.
llvm::StringRef nameOf(mlir::Value value);
/// `loc` without its name, or under the name of the derivative of `value`: "d_h" for the value "h".
mlir::Location placeOf(mlir::Location loc);
mlir::Location derivativeLoc(mlir::Location loc, mlir::Value value);

} // namespace echelon::ech
