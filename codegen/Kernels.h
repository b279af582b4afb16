// What a program calls the runtime's kernels with, and the numbers of a run: the same on all targets.
#pragma once
#include "codegen/Printer.h"
#include "ir/rt/Rt.h"

namespace echelon::codegen {

struct Call {
  std::string function;
  llvm::SmallVector<std::string> arguments;
};
/// The call of a kernel (runtime/kernels, runtime/cuda); `printer` names buffers and sizes. `first`: an argument before
/// the others, where the target has one.
Call callOf(mlir::Operation *kernel, Printer &printer, llvm::StringRef first = "");

/// A number as an expression of the host.
std::string textOf(rt::NumberOp number);
/// Whether it is short enough to appear where it is used.
bool isInline(rt::NumberOp number);

} // namespace echelon::codegen
