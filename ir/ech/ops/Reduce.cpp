// Sums, extremes and their indices, running sums, the norm of everything.
#include "ir/ech/Neutral.h"
#include "ir/ech/ops/Check.h"
#include "ir/ech/ops/Derive.h"
#include <limits>

using namespace mlir;
using namespace echelon::ech;

namespace {
LogicalResult checkReduction(Operation *op, Tensor operand, ArrayAttr over, Tensor result, Type element) {
  if (failed(checkHas(op, over, operand, "the operand")) || failed(checkElement(op, result, element, "the result")))
    return failure();
  return checkAxes(op, result, axesWithout(operand, over), "the result");
}
LogicalResult checkOneAxis(Operation *op, ArrayAttr over) {
  if (over.size() == 1)
    return success();
  return op->emitOpError() << "goes along one axis, not " << over.size();
}
Type index(Operation *op) { return IntegerType::get(op->getContext(), 32); }
} // namespace

//===- sum, max, min ---------------------------------------------------------------------------------------------===//

LogicalResult ReduceOp::verify() {
  Tensor operand = tensor(getOperand());
  if (operand.getElement().isInteger(1))
    return emitOpError() << stringifyReduction(getKind()) << " of truth values: cast them to numbers first";
  return checkReduction(*this, operand, getOver(), tensor(getResult()), operand.getElement());
}

Division ReduceOp::division(StringRef axis) {
  return getKind() != Reduction::Sum && has(getOver(), axis) ? Division::Inside : Division::Freely;
}

double echelon::ech::neutralOf(Reduction kind, bool isFloat) {
  const double largest = isFloat ? std::numeric_limits<double>::infinity() : std::numeric_limits<int32_t>::max();
  const double least = isFloat ? -largest : std::numeric_limits<int32_t>::min();
  return kind == Reduction::Max ? least : kind == Reduction::Min ? largest : 0;
}
double ReduceOp::neutral() { return neutralOf(getKind(), tensor(getOperand()).isFloat()); }
Padding ReduceOp::padding(unsigned, StringRef axis) {
  return has(getOver(), axis) ? Padding::number(neutral()) : Padding();
}

SmallVector<Value> ReduceOp::derive(Build &build, ArrayRef<Value> cotangents, ArrayRef<bool>) {
  Tensor type = tensor(getOperand());
  if (getKind() == Reduction::Sum)
    return {build.expand(cotangents[0], type)};
  // The extreme's cotangent goes to its lowest index. What a model says goes along one axis.
  assert(getOver().size() == 1 && "only what types put in goes along several, and that has no derivative");
  StringRef axis = cast<StringAttr>(getOver()[0]).getValue();
  Value x = getKind() == Reduction::Max ? getOperand() : build.neg(getOperand());
  Value here = build.map(Function::Eq, {build.index(axis, type.sizeOf(axis)), build.argmax(x, axis)});
  here = inOrder(build, here, type);
  return {inOrder(build, build.select(here, cotangents[0], build.constant(0)), type)};
}

//===- argmax, top -----------------------------------------------------------------------------------------------===//

LogicalResult ArgMaxOp::verify() {
  if (failed(checkOneAxis(*this, getOver())))
    return failure();
  return checkReduction(*this, tensor(getOperand()), getOver(), tensor(getResult()), index(*this));
}
Division ArgMaxOp::division(StringRef axis) { return has(getOver(), axis) ? Division::Inside : Division::Freely; }
Padding ArgMaxOp::padding(unsigned, StringRef axis) { return lowestAlong(getOver(), axis); }
SmallVector<Value> ArgMaxOp::derive(Build &, ArrayRef<Value>, ArrayRef<bool>) { return {Value()}; }

LogicalResult TopOp::verify() {
  Tensor operand = tensor(getOperand()), result = tensor(getResult());
  if (failed(checkOneAxis(*this, getOver())) || failed(checkHas(*this, getOver(), operand, "the operand")))
    return failure();
  if (!result.has(getInto()))
    return emitOpError() << "the result " << describe(result) << " has no axis " << getInto();
  StringRef over = cast<StringAttr>(getOver()[0]).getValue();
  if (result.sizeOf(getInto()) > operand.sizeOf(over))
    return emitOpError() << "takes " << result.sizeOf(getInto()) << " of " << over << " = " << operand.sizeOf(over);
  SmallVector<Axis> axes = axesWithout(operand, getOver());
  axes.push_back({getIntoAttr(), result.sizeOf(getInto())});
  if (failed(checkElement(*this, result, index(*this), "the result")))
    return failure();
  return checkAxes(*this, result, axes, "the result");
}
Division TopOp::division(StringRef axis) {
  return has(getOver(), axis) || axis == getInto() ? Division::Never : Division::Freely;
}

//===- cumsum ----------------------------------------------------------------------------------------------------===//

LogicalResult CumSumOp::verify() {
  Tensor operand = tensor(getOperand());
  if (failed(checkOneAxis(*this, getOver())) || failed(checkHas(*this, getOver(), operand, "the operand")) ||
      failed(checkElement(*this, tensor(getResult()), operand.getElement(), "the result")))
    return failure();
  return checkAxes(*this, tensor(getResult()), operand.getAxes(), "the result");
}
Division CumSumOp::division(StringRef axis) { return has(getOver(), axis) ? Division::Never : Division::Freely; }
SmallVector<Value> CumSumOp::derive(Build &build, ArrayRef<Value> cotangents, ArrayRef<bool>) {
  return {build.cumsum(cotangents[0], cast<StringAttr>(getOver()[0]).getValue(), !getReverse())};
}

//===- global_norm -----------------------------------------------------------------------------------------------===//

LogicalResult GlobalNormOp::verify() {
  for (Value v : getOperands())
    if (failed(checkReal(*this, tensor(v), "an operand")))
      return failure();
  return checkAxes(*this, tensor(getResult()), {}, "the result");
}
Division GlobalNormOp::division(StringRef) { return Division::Inside; }
Padding GlobalNormOp::padding(unsigned, StringRef) { return Padding::number(0); }

Linearity ReduceOp::linearIn(ArrayRef<bool>) { return {getKind() == Reduction::Sum}; }
Linearity CumSumOp::linearIn(ArrayRef<bool>) { return {true}; }
