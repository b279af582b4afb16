// A parameter that one stage of a pipeline alone reads is there on that stage alone.
#pragma once
#include "ir/dist/State.h"

namespace echelon::pipeline {

/// Once passes are the work of stages over a mesh axis: each parameter outside of their repeats that one stage alone
/// reads, its gradient, and what the optimizer keeps of it are `whole at` that stage; no message of its gradient goes
/// over the stages.
void placeParameters(mlir::ModuleOp module, dist::MeshAttr mesh, int stages);

} // namespace echelon::pipeline
