// How an operation reads as C++. Here is what all targets share: calls of rules, collectives, reports, waits, loops
// over layers. A kernel and the loops of a nest are the target's (cpu/).
#pragma once
#include "codegen/Printer.h"
#include "ir/rt/Rt.h"

namespace echelon::codegen {

/// Writes one operation of a program.
void spell(mlir::Operation *op, Printer &printer);
/// The head of a loop, what `body` writes of its block, and the end.
void spell(rt::ForOp loop, Printer &printer, llvm::function_ref<void(mlir::Block &)> body);
void spell(rt::StagesOp stages, Printer &printer, llvm::function_ref<void(mlir::Block &)> body);
void spell(rt::OffsetOp offset, Printer &printer);

} // namespace echelon::codegen
