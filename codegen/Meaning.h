// What a model computes, as a short text: equal for equal models, whatever their layout and batch.
#pragma once
#include "mlir/IR/BuiltinOps.h"
#include <string>

namespace echelon::codegen {

/// Of the training step as it was elaborated, before any pass: its operations with their attributes, what they read,
/// and the axes of what they give. Where statements stand in the spec does not count, nor does the number of samples.
std::string meaningOf(mlir::ModuleOp module);

/// The module attribute under which the compiler keeps it, since passes change the step.
inline constexpr llvm::StringLiteral kMeaning = "ech.meaning";

} // namespace echelon::codegen
