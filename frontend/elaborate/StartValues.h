// Numbers that values start training from.
#pragma once
#include "ir/ech/Ech.h"
#include "llvm/ADT/DenseMap.h"
#include <optional>

namespace echelon::frontend {

/// The number that a constant is.
std::optional<double> numberOf(mlir::Value value);

/// The number that a value made of parameters starts from, where it is the same everywhere and easily known.
std::optional<double> startOf(mlir::Value value, const llvm::DenseMap<mlir::StringAttr, ech::VariableOp> &parameters);

} // namespace echelon::frontend
