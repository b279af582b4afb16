// The run dialect: what a train block says besides the model and its layout.
#pragma once
#include "mlir/Bytecode/BytecodeOpInterface.h"
#include "mlir/IR/Builders.h"
#include "mlir/IR/BuiltinAttributes.h"
#include "mlir/IR/BuiltinOps.h"
#include "mlir/IR/Dialect.h"
#include "mlir/IR/OpDefinition.h"
#include "mlir/IR/OpImplementation.h"

#include "ir/run/RunDialect.h.inc"
#include "ir/run/RunEnums.h.inc"
#define GET_ATTRDEF_CLASSES
#include "ir/run/RunAttrs.h.inc"
#define GET_OP_CLASSES
#include "ir/run/RunOps.h.inc"

namespace echelon::run {

/// The only operation of its kind in a module; null where it has none.
template <typename Op> Op only(mlir::ModuleOp module) {
  auto ops = module.getOps<Op>();
  return ops.empty() ? Op() : *ops.begin();
}

/// Whether a training step may be left out: what is not finite in it changes nothing.
inline bool skipsSteps(mlir::ModuleOp module) {
  auto onNan = only<OnNanOp>(module);
  auto scale = only<LossScaleOp>(module);
  return (onNan && onNan.getAction() == NanAction::Skip) || (scale && scale.getDynamic());
}

} // namespace echelon::run
