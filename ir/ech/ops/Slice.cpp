// One position of an axis, or a range of it; and their transposes, which fill up with zeros.
#include "ir/ech/ops/Check.h"
#include "ir/ech/ops/Derive.h"

using namespace mlir;
using namespace echelon::ech;

namespace {
/// `small` is `big` with `axis` gone (or, when it keeps it, of another size).
LogicalResult checkPart(Operation *op, Tensor big, Tensor small, StringRef axis, bool keeps) {
  if (failed(checkElement(op, small, big.getElement(), "the part")))
    return failure();
  SmallVector<Axis> axes;
  for (const Axis &a : big.getAxes()) {
    if (a.name != axis)
      axes.push_back(a);
    else if (keeps)
      axes.push_back({a.name, small.has(axis) ? small.sizeOf(axis) : 0});
  }
  return checkAxes(op, small, axes, "the part");
}
int64_t lengthOf(Tensor type, StringRef axis) { return type.has(axis) ? type.sizeOf(axis) : 0; }
} // namespace

LogicalResult PickOp::verify() {
  if (failed(checkInside(*this, tensor(getOperand()), getAxis(), getPosition(), 1)))
    return failure();
  return checkPart(*this, tensor(getOperand()), tensor(getResult()), getAxis(), /*keeps=*/false);
}
// The position is logical: padding is never picked.
Padding PickOp::padding(unsigned, StringRef) { return {}; }
SmallVector<Value> PickOp::derive(Build &build, ArrayRef<Value> cotangents, ArrayRef<bool>) {
  return {build.place(cotangents[0], getAxis(), getPosition(), tensor(getOperand()))};
}

LogicalResult PlaceOp::verify() {
  if (failed(checkInside(*this, tensor(getResult()), getAxis(), getPosition(), 1)))
    return failure();
  return checkPart(*this, tensor(getResult()), tensor(getOperand()), getAxis(), /*keeps=*/false);
}
SmallVector<Value> PlaceOp::derive(Build &build, ArrayRef<Value> cotangents, ArrayRef<bool>) {
  return {inOrder(build, build.pick(cotangents[0], getAxis(), getPosition()), tensor(getOperand()))};
}

LogicalResult SliceOp::verify() {
  int64_t size = lengthOf(tensor(getResult()), getAxis());
  if (failed(checkInside(*this, tensor(getOperand()), getAxis(), getStart(), size)))
    return failure();
  return checkPart(*this, tensor(getOperand()), tensor(getResult()), getAxis(), /*keeps=*/true);
}
Division SliceOp::division(StringRef axis) { return axis == getAxis() ? Division::Never : Division::Freely; }
SmallVector<Value> SliceOp::derive(Build &build, ArrayRef<Value> cotangents, ArrayRef<bool>) {
  return {build.pad(cotangents[0], getAxis(), getStart(), tensor(getOperand()))};
}

LogicalResult PadOp::verify() {
  int64_t size = lengthOf(tensor(getOperand()), getAxis());
  if (failed(checkInside(*this, tensor(getResult()), getAxis(), getStart(), size)))
    return failure();
  return checkPart(*this, tensor(getResult()), tensor(getOperand()), getAxis(), /*keeps=*/true);
}
Division PadOp::division(StringRef axis) { return axis == getAxis() ? Division::Never : Division::Freely; }
SmallVector<Value> PadOp::derive(Build &build, ArrayRef<Value> cotangents, ArrayRef<bool>) {
  int64_t size = tensor(getOperand()).sizeOf(getAxis());
  return {inOrder(build, build.slice(cotangents[0], getAxis(), getStart(), size), tensor(getOperand()))};
}

Linearity PickOp::linearIn(ArrayRef<bool>) { return {true}; }
Linearity PlaceOp::linearIn(ArrayRef<bool>) { return {true}; }
Linearity SliceOp::linearIn(ArrayRef<bool>) { return {true}; }
Linearity PadOp::linearIn(ArrayRef<bool>) { return {true}; }
bool PickOp::takesPositions(StringRef axis) { return getAxis() == axis; }
bool PlaceOp::takesPositions(StringRef axis) { return getAxis() == axis; }
