// From the rt dialect to one C++ file.
#pragma once
#include "frontend/Source.h"
#include "frontend/resolve/RunSettings.h"
#include "mlir/IR/BuiltinOps.h"
#include "llvm/Support/raw_ostream.h"

namespace echelon {

/// Prints the program of a module whose arenas are planned. `sources` gives the lines that comments show. The text is a
/// function of its arguments alone: the same bytes each time. With `profile` it carries probes, and prints at its end
/// where the time of a step went. `meaning`: codegen::meaningOf the model, which snapshots keep.
mlir::LogicalResult emitCpp(mlir::ModuleOp module, const frontend::RunSettings &settings,
                            const frontend::SourceManager &sources, llvm::raw_ostream &os, bool profile = false,
                            const std::string &meaning = "");

} // namespace echelon
