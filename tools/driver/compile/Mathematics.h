// What a model computes, as text that outlives the compiler that wrote it: the `model` of a snapshot's manifest. The
// program compares it (runtime/snapshot/Mathematics.h has the format).
#pragma once
#include "frontend/Source.h"
#include "mlir/IR/BuiltinOps.h"
#include <string>

namespace echelon {

/// Of the training step before it is derived: every loss and every state's next value as operations of the language
/// over parameters, states and inputs. What nothing of them reads does not count, nor does where statements stand, how
/// locals are called, or how many samples a step has. Each operation names the line of the spec that it comes from.
std::string mathematicsOf(mlir::ModuleOp module, const frontend::SourceManager &sources);

/// Before the model is simplified: what is multiplied by 0 stays, so that a weight that is 0 is a number as others are.
void keepZeroWeights(mlir::ModuleOp module);

} // namespace echelon
