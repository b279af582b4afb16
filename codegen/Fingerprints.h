// What identifies a run: what a resumed one must share with its snapshot.
#pragma once
#include "mlir/IR/BuiltinOps.h"
#include <string>
#include <utility>
#include <vector>

namespace echelon::codegen {

/// Category ("model", "data", "seed", "optimizer", "layout") and text, of a module with a run.mathematics, which is the
/// model's; the others' have a line "name: value" for everything that is said.
std::vector<std::pair<std::string, std::string>> fingerprints(mlir::ModuleOp module);

} // namespace echelon::codegen
