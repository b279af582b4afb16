// What people are told an operation by, in profiles and traces of steps that ran and of those that are predicted.
#pragma once
#include "ir/rt/Cost.h"
#include "ir/rt/Rt.h"

namespace echelon {

/// "gemm h [batch=32, hidden=128]", of operations whose buffers are named.
std::string callName(const rt::Cost &cost);

/// On an operation, in a program that is to be profiled: seconds of one call as they are predicted. On the module: for
/// people, whose figures those are; seconds of a step; of these, until the batch is in its place.
inline constexpr llvm::StringLiteral kPredicted = "rt.predicted";
inline constexpr llvm::StringLiteral kPredictedBy = "rt.predicted_by";
inline constexpr llvm::StringLiteral kPredictedStep = "rt.predicted_step";
inline constexpr llvm::StringLiteral kPredictedData = "rt.predicted_data";

/// "mlp.ech:15", or "mlp.ech:15 +2" where two more lines went into the operation.
std::string callLines(mlir::Operation *op);

} // namespace echelon
