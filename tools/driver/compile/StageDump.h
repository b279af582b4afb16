// `--dump-stages DIR`: the IR after each pass, as files that sort in the order of the pipeline.
#pragma once
#include "mlir/IR/BuiltinOps.h"
#include <memory>
#include <string>

namespace mlir {
class PassInstrumentation;
}

namespace echelon {

/// How IR is shown to people: values carry the user's names (`%logits`, `%q`), operations no locations.
mlir::OpPrintingFlags readableIr();

/// Writes `DIR/NAME/00_elaborated.mlir` now, then `DIR/NAME/01_FLAG.mlir` and so on, one file for each pass that ends
/// without an error. `name`: the spec's. What cannot be written is reported once, on standard error, and sets `failed`,
/// which lives as long as what is returned.
std::unique_ptr<mlir::PassInstrumentation> dumpStages(mlir::ModuleOp module, const std::string &folder,
                                                      const std::string &name, bool &failed);

} // namespace echelon
