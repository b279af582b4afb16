// The part of a step that an operation is of: the forward pass, the backward pass, or the update.
#pragma once
#include "ir/ech/Ech.h"
#include "mlir/IR/Builders.h"

namespace echelon {

/// "forward", "backward", "update".
inline llvm::StringRef phaseOf(mlir::Operation *op) {
  auto phase = op->getAttrOfType<mlir::StringAttr>(ech::kPhase);
  return phase ? phase.getValue() : "forward";
}
inline bool isOfBackward(mlir::Operation *op) { return phaseOf(op) == "backward"; }
inline bool isOfUpdate(mlir::Operation *op) { return phaseOf(op) == "update"; }

inline void setPhase(mlir::Operation *op, llvm::StringRef phase) {
  op->setAttr(ech::kPhase, mlir::StringAttr::get(op->getContext(), phase));
}
inline void copyPhase(mlir::Operation *from, mlir::Operation *to) {
  if (mlir::Attribute phase = from->getAttr(ech::kPhase))
    to->setAttr(ech::kPhase, phase);
}

/// What a builder with this listener builds is of the phase of an operation.
struct InPhaseOf : mlir::OpBuilder::Listener {
  explicit InPhaseOf(mlir::Operation *op) : phase(op->getAttr(ech::kPhase)) {}
  void notifyOperationInserted(mlir::Operation *made, mlir::OpBuilder::InsertPoint) override {
    if (phase)
      made->setAttr(ech::kPhase, phase);
  }

private:
  mlir::Attribute phase; // the operation itself may be gone before the builder
};

} // namespace echelon
