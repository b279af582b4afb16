// `params bf16`: parameters of two bytes.
#pragma once
#include "mlir/IR/BuiltinOps.h"

namespace echelon::types {

/// Parameters become variables of a narrow type: what is read of them is converted to f32, what is written to them
/// rounded.
void narrowParameters(mlir::ModuleOp module, mlir::Type narrow);

} // namespace echelon::types
