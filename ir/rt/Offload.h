// What programs have whose optimizer's state is offloaded: its place, and where it leaves memory.
#pragma once
#include "ir/rt/Rt.h"

#define GET_OP_CLASSES
#include "ir/rt/RtOffload.h.inc"

namespace echelon::rt {

/// On the module, by rt-plan-arenas: [first byte, bytes] of the state arena's end that lies in a file.
inline constexpr llvm::StringLiteral kOffloaded = "rt.offloaded";
/// On an rt.invoke, by rt-outline-updates: which operands lie there. The rule runs on all rows piece by piece
/// (runtime/program/Offload.h).
inline constexpr llvm::StringLiteral kOffloadedRows = "rt.offloaded_rows";

/// The directory of the file; empty: nothing is offloaded.
llvm::StringRef offloadDirectory(mlir::ModuleOp module);

} // namespace echelon::rt
