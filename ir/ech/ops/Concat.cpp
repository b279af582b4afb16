// Values one after the other along an axis.
#include "ir/ech/ops/Check.h"
#include "ir/ech/ops/Derive.h"

using namespace mlir;
using namespace echelon::ech;

LogicalResult ConcatOp::verify() {
  if (getOperands().empty())
    return emitOpError() << "has no operands";
  Tensor result = tensor(getResult());
  int64_t length = 0;
  for (Value v : getOperands()) {
    Tensor type = tensor(v);
    if (!type.has(getAxis()))
      return emitOpError() << "along " << getAxis() << " meets " << describe(type) << ", which lacks it";
    if (failed(checkElement(*this, type, result.getElement(), "an operand")))
      return failure();
    length += type.sizeOf(getAxis());
    SmallVector<Axis> axes;
    for (const Axis &a : result.getAxes())
      axes.push_back(a.name == getAxis() ? Axis{a.name, type.sizeOf(getAxis())} : a);
    if (failed(checkAxes(*this, type, axes, "an operand")))
      return failure();
  }
  if (result.sizeOf(getAxis()) != length)
    return emitOpError() << "along " << getAxis() << " joins " << length << " positions into "
                         << result.sizeOf(getAxis());
  return success();
}
Division ConcatOp::division(StringRef axis) { return axis == getAxis() ? Division::Never : Division::Freely; }

SmallVector<Value> ConcatOp::derive(Build &build, ArrayRef<Value> cotangents, ArrayRef<bool> wanted) {
  SmallVector<Value> result;
  int64_t start = 0;
  for (auto [v, want] : llvm::zip(getOperands(), wanted)) {
    int64_t size = tensor(v).sizeOf(getAxis());
    result.push_back(want ? inOrder(build, build.slice(cotangents[0], getAxis(), start, size), tensor(v)) : Value());
    start += size;
  }
  return result;
}

Linearity ConcatOp::linearIn(ArrayRef<bool>) { return {true, 0}; }
