// What Adam and the rules that are built on it share.
#pragma once
#include "passes/update/Rule.h"

namespace echelon::update {

/// The moments after this step, and what the first is divided by: 1 - b1^t.
struct Moments {
  Value m, v, ofM;
};
Moments adamMoments(Update &u);
/// sqrt(v) / sqrt(1 - b2^t) + epsilon.
Value adamScale(Update &u, Value v);
/// "betas" and "epsilon".
llvm::SmallVector<NamedValue> describeAdam(run::OptimizeOp line);

} // namespace echelon::update
