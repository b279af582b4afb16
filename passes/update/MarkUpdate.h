// What a builder with this listener builds is of the update.
#pragma once
#include "ir/ech/Ech.h"
#include "mlir/IR/Builders.h"

namespace echelon::update {

struct MarkUpdate : mlir::OpBuilder::Listener {
  void notifyOperationInserted(mlir::Operation *op, mlir::OpBuilder::InsertPoint) override {
    op->setAttr(ech::kPhase, mlir::StringAttr::get(op->getContext(), "update"));
  }
};

} // namespace echelon::update
