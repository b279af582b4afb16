// Derivatives against central differences, in fp64.
#pragma once
#include "test/interpret/Interpret.h"
#include <functional>

namespace echelon::interpret {

/// A parameter of a case: its axes, and where its values lie.
struct Leaf {
  std::vector<std::pair<llvm::StringRef, int64_t>> axes;
  double low = -1, high = 1;
};
/// Builds a value from the parameters.
using Case = std::function<mlir::Value(ech::Build &build, llvm::ArrayRef<mlir::Value> parameters)>;

/// The worst difference between a parameter's gradient and central differences, relative to the gradient's norm. The
/// loss weighs every element of the case's value differently. `passes`: run over so many micro batches.
double worstDifference(llvm::ArrayRef<Leaf> leaves, const Case &what, int64_t passes = 1);

/// The accepted difference, relative to the norm of a gradient.
constexpr double kTolerance = 1e-6;

} // namespace echelon::interpret
