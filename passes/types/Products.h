// What products multiply: what precisions are about.
#pragma once
#include "ir/ech/Ech.h"
#include "ir/run/Run.h"
#include "passes/Phase.h"

namespace echelon::types {

using ech::isProduct;

/// Whether a product multiplies an operand: not the mask and the bias of attention, nor its result and statistics.
inline bool isFactor(mlir::OpOperand &operand) {
  const unsigned at = operand.getOperandNumber();
  mlir::Operation *op = operand.getOwner();
  return llvm::isa<ech::AttentionOp>(op) ? at < 3 : llvm::isa<ech::AttentionGradOp>(op) ? at < 4 : isProduct(op);
}

/// Whether a product takes f32 in any precision: those of the update do, and what `keep` names.
inline bool staysF32(mlir::Operation *product) { return product->hasAttr(ech::kStaysF32) || isOfUpdate(product); }

/// Whether all that an operation does is to put elements at other places.
inline bool moves(mlir::Operation *op) {
  using namespace ech;
  return llvm::isa<RelabelOp, PlaceOp, SliceOp, PadOp, ConcatOp>(op);
}

/// Whether an operation makes f32 of what is kept in two bytes.
inline bool isWidening(mlir::Operation *op) {
  auto map = llvm::dyn_cast_or_null<ech::MapOp>(op);
  return map && map.getFunction() == ech::Function::Cast &&
         ech::isNarrow(ech::tensor(map.getOperands()[0]).getElement());
}

/// The values that the forward pass of a step multiplies, or what follows from them. What goes into or out of loops
/// counts as multiplied, but for what micro batches add up or stack: that is a value behind them.
class LeadingToProducts {
public:
  explicit LeadingToProducts(ech::StepOp step);
  bool contains(mlir::Value v) const { return values.contains(v); }

private:
  bool leads(mlir::OpOperand &use) const;
  llvm::DenseSet<mlir::Value> values;
};

/// The parameter or state that a value is read from, elements moved or converted at most; through the slices of
/// loops. Null for others.
ech::ReadOp readOf(mlir::Value v);

} // namespace echelon::types
