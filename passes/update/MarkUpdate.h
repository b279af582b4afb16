// What a builder with this listener builds is of the update.
#pragma once
#include "passes/Phase.h"

namespace echelon::update {

struct MarkUpdate : mlir::OpBuilder::Listener {
  void notifyOperationInserted(mlir::Operation *op, mlir::OpBuilder::InsertPoint) override { setPhase(op, "update"); }
};

} // namespace echelon::update
