// What a step takes of memory under a framework that is not this one: of each stage of a pipeline by itself, each value
// from where it is made to where it is used last, by the machine's constants `held_…`.
#pragma once
#include "mlir/IR/BuiltinOps.h"

namespace echelon {

/// On the module: the constants that its machine says, a dictionary of floats. Without it, memory is the arenas'.
inline constexpr llvm::StringLiteral kHeld = "dist.held";

/// Bytes of the rank that takes most, where it takes most.
struct HeldMemory {
  double params = 0, optimizer = 0, gradients = 0, activations = 0;
  double total() const { return params + optimizer + gradients + activations; }
};

/// Of a module whose arenas are planned, and whose machine says constants.
HeldMemory heldMemory(mlir::ModuleOp module);

} // namespace echelon
