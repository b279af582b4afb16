// The `describe` function of a program: all that the training loop must know, as data.
#pragma once
#include "codegen/Target.h"
#include "ir/rt/Rt.h"

namespace echelon::codegen {

void printDescription(mlir::ModuleOp module, const Target &target, llvm::raw_ostream &os, bool profile);
/// `double learning_rate(int64_t step)`: the last optimizer's; `learning_rate_0` and so on: those of the others.
void printSchedules(mlir::ModuleOp module, llvm::raw_ostream &os);

} // namespace echelon::codegen
