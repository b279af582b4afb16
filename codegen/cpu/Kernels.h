// How programs for CPUs call the runtime: its function and arguments for each kernel, and the numbers of a run.
#pragma once
#include "codegen/Printer.h"
#include "ir/rt/Rt.h"

namespace echelon::codegen::cpu {

struct Call {
  std::string function;
  llvm::SmallVector<std::string> arguments;
};
/// The call of a kernel (runtime/kernels); `printer` names buffers and sizes.
Call callOf(mlir::Operation *kernel, Printer &printer);

/// A number as an expression.
std::string textOf(rt::NumberOp number);
/// Whether it is short enough to appear where it is used.
bool isInline(rt::NumberOp number);

} // namespace echelon::codegen::cpu
