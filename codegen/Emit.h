// From the rt dialect to one file of C++, or of CUDA C++.
#pragma once
#include "frontend/Source.h"
#include "mlir/IR/BuiltinOps.h"
#include "passes/Passes.h"
#include "llvm/Support/raw_ostream.h"

namespace echelon {

/// Prints the program of a module after the last pass; says what is missing in one before. `sources` gives the lines
/// that comments show. The text is a function of its arguments alone: the same bytes each time. With `profile` it
/// carries probes, and prints at its end where the time of a step went.
mlir::LogicalResult emitProgram(mlir::ModuleOp module, Target target, const frontend::SourceManager &sources,
                                llvm::raw_ostream &os, bool profile = false);

} // namespace echelon
