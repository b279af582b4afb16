// Where an operation of a GPU has what is offloaded from it.
#pragma once
#include "mlir/IR/BuiltinOps.h"

namespace echelon {

/// A rule of the update, alone to touch a moment, has it in pieces (PieceUpdates.h). Any other operation, as a norm of
/// LAMB's or an exchange of averages, has a copy on the device:
///
///   %average = rt.alloc state of @average.w
///   rt.copy_strided %w, %average
///
/// becomes
///
///   %average = rt.alloc state of @average.w
///   %there = rt.alloc work
///   rt.fetch %there, %average
///   rt.copy_strided %w, %there
///
/// with rt.write_back %average, %there behind the last operation, where one writes. Before arenas are planned, which
/// have room for copies.
void stageOffloaded(mlir::ModuleOp module);

} // namespace echelon
