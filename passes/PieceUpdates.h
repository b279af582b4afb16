// Updates work on what is offloaded piece by piece, and let it go.
#pragma once
#include "mlir/IR/BuiltinOps.h"

namespace echelon {

/// A rule that is invoked on rows that are offloaded is told which: it runs on pieces of all its rows, and lets them go
/// itself. What an iteration of a repeat reads of a parameter is read while the iteration before it computes, and let go
/// behind its last use. A buffer that other operations touch is let go whole, behind the last of these in its step. No
/// byte of a result depends on it.
void pieceUpdates(mlir::ModuleOp module);

} // namespace echelon
