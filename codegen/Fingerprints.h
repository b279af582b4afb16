// What identifies a run: what a resumed one must share with its snapshot.
#pragma once
#include "frontend/resolve/RunSettings.h"
#include "mlir/IR/BuiltinOps.h"
#include <string>
#include <utility>
#include <vector>

namespace echelon::codegen {

/// Category ("model", "data", "seed", "optimizer", "layout") and text; the model's is `meaning` (codegen/Meaning.h),
/// the others' have a line "name: value" for everything that is said.
std::vector<std::pair<std::string, std::string>>
fingerprints(mlir::ModuleOp module, const frontend::RunSettings &settings, const std::string &meaning);

} // namespace echelon::codegen
