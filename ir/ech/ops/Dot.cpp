// ech.dot: contraction by names.
#include "ir/ech/ops/Check.h"
#include "ir/ech/ops/Derive.h"

using namespace mlir;
using namespace echelon::ech;

LogicalResult DotOp::verify() {
  Tensor lhs = tensor(getLhs()), rhs = tensor(getRhs());
  if (failed(checkHas(*this, getOver(), lhs, "the left operand")) ||
      failed(checkHas(*this, getOver(), rhs, "the right operand")) || failed(checkSizesAgree(*this, {lhs, rhs})) ||
      failed(checkReal(*this, lhs, "the left operand")) ||
      failed(checkElement(*this, rhs, lhs.getElement(), "the right operand")) ||
      failed(checkElement(*this, tensor(getResult()),
                          isNarrow(lhs.getElement()) ? Float32Type::get(getContext()) : lhs.getElement(),
                          "the result")))
    return failure();
  SmallVector<Axis> axes;
  for (const Axis &axis : unionOfAxes({lhs, rhs}))
    if (!has(getOver(), axis.name))
      axes.push_back(axis);
  return checkAxes(*this, tensor(getResult()), axes, "the result");
}

// d(lhs) = sum of d(result) * rhs over the axes that rhs has and lhs lacks; the other way round for rhs.
SmallVector<Value> DotOp::derive(Build &build, ArrayRef<Value> cotangents, ArrayRef<bool> wanted) {
  auto side = [&](bool want, Value self, Value other) {
    return want ? productTo(build, cotangents[0], other, tensor(self)) : Value();
  };
  return {side(wanted[0], getLhs(), getRhs()), side(wanted[1], getRhs(), getLhs())};
}

// A multiplication and an addition for each point of the space.
int64_t DotOp::flops() {
  int64_t points = 1;
  for (const Axis &axis : unionOfAxes({getLhs().getType(), getRhs().getType()}))
    points *= axis.size;
  return 2 * points;
}

Linearity DotOp::linearIn(ArrayRef<bool> partial) { return {llvm::count(partial, true) == 1}; }
