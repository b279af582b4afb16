// The train block as operations of the run dialect.
#pragma once
#include "frontend/resolve/RunSettings.h"
#include "mlir/IR/BuiltinOps.h"
#include <string>

namespace echelon {

/// Puts data, optimizers, evaluations and snapshots at the start of the module. `mathematics`: what the model computes,
/// as snapshots keep it; empty: there are none.
void buildRun(mlir::ModuleOp module, const frontend::RunSettings &settings, const frontend::SourceManager &sources,
              const std::string &mathematics);

} // namespace echelon
