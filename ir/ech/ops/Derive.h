// What the derivatives of ech operations share.
#pragma once
#include "ir/ech/Build.h"

namespace echelon::ech {

/// The product d * g summed to the axes of `like`, which is d's transpose of broadcasting. Where there is something to
/// sum, it is a `dot`, so that the product itself never exists. Axes of g that d lacks are `like`'s.
mlir::Value productTo(Build &build, mlir::Value d, mlir::Value g, Tensor like);
/// `value`, whose axes are those of `like`, in the order of `like`: by giving the operation just built that result type
/// where its result may appear in any order, else by an expansion that adds nothing (a transposition).
mlir::Value inOrder(Build &build, mlir::Value value, Tensor like);
/// The result of a norm from its statistics: (x - mean) * rstd - mean_low * rstd, where the first difference is exact
/// near the mean, and the second product is one a row or channel. map(f, like, a, b) makes f(a, b), of like's type.
template <typename Map>
mlir::Value normalizedAgain(Map map, mlir::Value y, mlir::Value rstd, mlir::Value x, mlir::Value mean,
                            mlir::Value low) {
  mlir::Value scaled = map(Function::Mul, y, map(Function::Sub, y, x, mean), rstd);
  return map(Function::Sub, y, scaled, map(Function::Mul, rstd, low, rstd));
}
/// The names of the axes that `from` has and `to` lacks.
llvm::SmallVector<llvm::StringRef> missingAxes(Tensor from, Tensor to);

} // namespace echelon::ech
