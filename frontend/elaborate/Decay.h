// Which parameters weight decay takes.
#pragma once
#include "mlir/IR/BuiltinOps.h"
#include "llvm/ADT/StringSet.h"

namespace echelon::frontend {

/// Marks the parameters that are weights of @train: those that a sum of products takes along an axis that they vary
/// along, and tables that are gathered from. It goes by what is computed, not by how the text spells it: a dot, a conv,
/// and a sum of what is multiplied element by element are the same, and a parameter may have been scaled, masked,
/// normalised, renamed or put together with others before. What only multiplies a product that has a weight (a gain)
/// and what is only added to values of samples (a bias) is not marked. `samples`: axes that count samples.
void markDecayed(mlir::ModuleOp module, const llvm::StringSet<> &samples);

} // namespace echelon::frontend
