// What is known, when compiling, of numbers of a step: of the chances of dropout and survive.
#pragma once
#include "ir/ech/Ech.h"
#include "llvm/ADT/StringMap.h"
#include <limits>
#include <optional>
#include <string>
#include <vector>

namespace echelon::frontend {

/// Both included; infinite where nothing is known.
struct Bounds {
  double low = -std::numeric_limits<double>::infinity(), high = std::numeric_limits<double>::infinity();
};

/// Of one step; what it has worked out for one draw serves the next.
class KnownNumbers {
public:
  /// Of `value`, for all inputs, parameters and positions.
  Bounds bounds(mlir::Value value);

  /// The number at each position of the repeats around `op`, the outermost slowest; empty where it is not made of
  /// numbers and positions alone. Nothing where that is too much work.
  std::optional<std::vector<double>> atPositions(mlir::Operation *op, mlir::Value value);

private:
  llvm::DenseMap<mlir::Value, Bounds> known;
  size_t work = 4'000'000; // operations on numbers, so that 10 s are enough for any model
};

/// "a = 1, b = 3": at which positions of the repeats around `op` the number of this index in atPositions() stands.
std::string positionsOf(mlir::Operation *op, size_t index);

} // namespace echelon::frontend
