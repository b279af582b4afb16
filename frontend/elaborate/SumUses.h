// What becomes of sums.
#pragma once
#include "frontend/elaborate/Origins.h"

namespace echelon::frontend {

class SumUses {
public:
  SumUses(const Origins &origins, const llvm::StringSet<> &samples) : origins(origins), samples(samples) {}

  /// Whether a sum, or a mean, is subtracted from what it is of, or divides it: a norm written out, no contraction.
  bool isTakenOut(mlir::Value sum, mlir::Value of) const;
  /// Whether a value goes only, and linearly, into sums over samples or losses.
  bool endsInAverage(mlir::Value value);

private:
  bool isNumbers(mlir::Value value) const { return origins[value].kind == Origin::Numbers; }
  bool hasLinearUsersAlone(mlir::Value value);

  const Origins &origins;
  const llvm::StringSet<> &samples;
  llvm::DenseMap<mlir::Value, bool> averaged;
};

} // namespace echelon::frontend
