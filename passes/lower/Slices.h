// How kernels of reductions see their operands.
#pragma once
#include "passes/lower/Lowering.h"

namespace echelon::lower {

/// An operand as (outer, n, inner), n the axes that are reduced.
struct Slices {
  Slices(Lowering &l, mlir::Operation *op, Value operand, mlir::ArrayAttr overNames);

  mlir::NameLoc named(llvm::StringRef name) { return mlir::NameLoc::get(l.b.getStringAttr(name), loc); }
  /// A buffer of what is left.
  Value temporary(llvm::StringRef name) { return l.alloc(rest, element, named(name)); }

  Lowering &l;
  Location loc;
  llvm::SmallVector<llvm::StringRef> over;
  Value x;
  mlir::Type element;
  llvm::SmallVector<Axis> rest;
  rt::SizeAttr outer, n, inner;
};

/// Logits as (rows, classes), labels beside them: of one class a row, or a distribution over the classes.
struct Classes {
  Classes(Lowering &l, Value logits, Value labels, llvm::StringRef over);

  llvm::SmallVector<Axis> rows;
  Value x, labels;
  bool hasTarget; ///< labels are a distribution
  rt::SizeAttr count, vocab;
};

/// sum = the squares of all elements of all operands, added up in double. Over the mesh axes given, coordinate 0 alone
/// counts an operand that is whole. Where the sum is no longer finite, the program remembers the first gradient that
/// made it so.
void addSquares(Lowering &l, mlir::Operation *op, Value sum, llvm::ArrayRef<int> mesh);
/// result = sqrt(sum), in the result's type.
mlir::LogicalResult root(Lowering &l, Value result, Value sum, Location loc);

/// What a rank finds of its part, and what follows from what all found: rt.partial, rt.combine.
void partial(Lowering &l, Location loc, rt::PartialKind kind, mlir::ValueRange outs, mlir::ValueRange inputs,
             llvm::ArrayRef<rt::SizeAttr> sizes, Value first = {});
void combine(Lowering &l, Location loc, rt::CombineKind kind, mlir::ValueRange outs, mlir::ValueRange inputs,
             llvm::ArrayRef<rt::SizeAttr> sizes, std::optional<int64_t> total = {}, std::optional<double> epsilon = {});

// Of norms (Norms.cpp):
mlir::LogicalResult lowerNormPartial(Lowering &l, dist::PartialOp op);
mlir::LogicalResult lowerNormCombine(Lowering &l, dist::CombineOp op);

} // namespace echelon::lower
