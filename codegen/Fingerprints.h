// What a snapshot says of its run, and what a run that is resumed from it must share.
#pragma once
#include "mlir/IR/BuiltinOps.h"
#include <string>
#include <utility>
#include <vector>

namespace echelon::codegen {

/// Category ("model", "data", "seed", "optimizer", "layout") and text, of a module with a run.checkpoint. The model's
/// is the text of run.mathematics; the others have a line "name: value" for each thing that they say.
std::vector<std::pair<std::string, std::string>> fingerprints(mlir::ModuleOp module);

} // namespace echelon::codegen
