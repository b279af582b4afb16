// Follows a value to what is made of it.
#pragma once
#include "mlir/IR/Value.h"
#include "llvm/ADT/STLFunctionalExtras.h"

namespace echelon::frontend {

/// Whether some chain of operations, from the value on, leads to one that is `wanted`. Of a loop, each value that goes
/// in or comes out is followed by itself: what an iteration yields is seen by the next one, or after the loop.
bool reaches(mlir::Value value, llvm::function_ref<bool(mlir::Operation *)> wanted);

} // namespace echelon::frontend
