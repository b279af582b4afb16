// What programs have whose optimizer's state is offloaded: its place, and where it comes and leaves.
#pragma once
#include "ir/rt/Rt.h"

#define GET_OP_CLASSES
#include "ir/rt/RtOffload.h.inc"

namespace echelon::rt {

/// On the module, by rt-plan-arenas: [first byte, bytes] of the state arena's end that is offloaded.
inline constexpr llvm::StringLiteral kOffloaded = "rt.offloaded";
/// On the module of a program for GPUs, beside dist.offload: the device has two pieces of that, apart from its arenas.
inline constexpr llvm::StringLiteral kStaged = "rt.staged";
/// On an rt.invoke, by rt-outline-updates: which operands lie there. The rule runs on all rows piece by piece
/// (runtime/program/Offload.h).
inline constexpr llvm::StringLiteral kOffloadedRows = "rt.offloaded_rows";

} // namespace echelon::rt
