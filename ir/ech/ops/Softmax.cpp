// softmax, logsumexp and cross-entropy: one family over the exponentials' sum. What is kept of a logsumexp are its two
// terms, the shift and the logarithm: their sum has no digits of the logarithm where the shift is large.
#include "ir/ech/ops/Check.h"
#include "ir/ech/ops/Derive.h"

using namespace mlir;
using namespace echelon::ech;

/// softmax(x) from the terms of x's logsumexp, which is element-wise.
static Value share(Build &build, Value x, Value shift, Value logSum) {
  return build.map(Function::Exp, {build.sub(build.sub(x, shift), logSum)});
}

//===- softmax ---------------------------------------------------------------------------------------------------===//

LogicalResult SoftmaxOp::verify() {
  Tensor operand = tensor(getOperand());
  if (failed(checkHas(*this, getOver(), operand, "the operand")) || failed(checkReal(*this, operand, "the operand")) ||
      failed(checkElement(*this, tensor(getResult()), operand.getElement(), "the result")))
    return failure();
  return checkAxes(*this, tensor(getResult()), operand.getAxes(), "the result");
}
Division SoftmaxOp::division(StringRef axis) { return has(getOver(), axis) ? Division::Inside : Division::Freely; }
Padding SoftmaxOp::padding(unsigned, StringRef axis) { return lowestAlong(getOver(), axis); }
// dx = y (dy - sum(y dy))
SmallVector<Value> SoftmaxOp::derive(Build &build, ArrayRef<Value> cotangents, ArrayRef<bool>) {
  Value total = build.dot(getResult(), cotangents[0], strings(getOver()));
  return {build.mul(getResult(), build.sub(cotangents[0], total))};
}

//===- logsumexp -------------------------------------------------------------------------------------------------===//

LogicalResult LogSumExpOp::verify() {
  Tensor operand = tensor(getOperand());
  if (failed(checkHas(*this, getOver(), operand, "the operand")) || failed(checkReal(*this, operand, "the operand")) ||
      failed(checkElement(*this, tensor(getResult()), operand.getElement(), "the result")))
    return failure();
  for (auto [value, what] : {std::pair(getResult(), "the result"), {getShift(), "the shift"}, {getLogSum(), "log_sum"}})
    if (failed(checkAxes(*this, tensor(value), axesWithout(operand, getOver()), what)))
      return failure();
  return success();
}
Division LogSumExpOp::division(StringRef axis) { return has(getOver(), axis) ? Division::Inside : Division::Freely; }
Padding LogSumExpOp::padding(unsigned, StringRef axis) { return lowestAlong(getOver(), axis); }
// The shift is a constant, so log_sum has the derivative of the result.
SmallVector<Value> LogSumExpOp::derive(Build &build, ArrayRef<Value> cotangents, ArrayRef<bool>) {
  Value result = cotangents[0], logSum = cotangents[2];
  Value d = result && logSum ? build.add(result, logSum) : result ? result : logSum;
  return {d ? build.mul(share(build, getOperand(), getShift(), getLogSum()), d) : Value()};
}

//===- cross_entropy ---------------------------------------------------------------------------------------------===//

LogicalResult CrossEntropyOp::verify() {
  Tensor logits = tensor(getLogits()), labels = tensor(getLabels());
  if (getOver().size() != 1)
    return emitOpError() << "goes along one axis, not " << getOver().size();
  if (failed(checkHas(*this, getOver(), logits, "the logits")) || failed(checkReal(*this, logits, "the logits")))
    return failure();
  SmallVector<Axis> rest = axesWithout(logits, getOver());
  StringRef over = cast<StringAttr>(getOver()[0]).getValue();
  if (labels.has(over)) { // a distribution
    if (failed(checkElement(*this, labels, logits.getElement(), "the distribution")) ||
        failed(checkAxes(*this, labels, logits.getAxes(), "the distribution")))
      return failure();
  } else if (failed(checkElement(*this, labels, IntegerType::get(getContext(), 32), "the labels")) ||
             failed(checkAxes(*this, labels, rest, "the labels"))) {
    return failure();
  }
  for (auto [value, what] : {std::pair(getLoss(), "the loss"), {getShift(), "the shift"}, {getLogSum(), "log_sum"}})
    if (failed(checkAxes(*this, tensor(value), rest, what)))
      return failure();
  return success();
}
Division CrossEntropyOp::division(StringRef axis) { return has(getOver(), axis) ? Division::Inside : Division::Freely; }
// Of a distribution, 0 times the padding's -infinity would be read.
Padding CrossEntropyOp::padding(unsigned, StringRef axis) {
  if (has(getOver(), axis) && tensor(getLabels()).has(axis))
    return {Padding::Unknown};
  return lowestAlong(getOver(), axis);
}

// Element-wise in the terms of the logsumexp: (softmax(x) - [index = label]) dloss.
SmallVector<Value> CrossEntropyOp::derive(Build &build, ArrayRef<Value> cotangents, ArrayRef<bool> wanted) {
  StringRef over = cast<StringAttr>(getOver()[0]).getValue();
  Tensor type = tensor(getLogits());
  bool distribution = tensor(getLabels()).has(over);
  assert(!cotangents[1] && !cotangents[2] && "the terms of the logsumexp are for this derivative alone");
  SmallVector<Value> result(2);
  if (!cotangents[0])
    return result;
  if (wanted[0]) {
    Value target, scaled = share(build, getLogits(), getShift(), getLogSum());
    if (distribution) {
      target = getLabels();
      scaled = build.mul(scaled, build.sum(getLabels(), {over})); // its sum is 1 for the user, not for rounding
    } else {
      Value here = build.map(Function::Eq, {build.index(over, type.sizeOf(over)), getLabels()});
      target = build.toReal(inOrder(build, here, type));
    }
    result[0] = inOrder(build, build.mul(build.sub(scaled, target), cotangents[0]), type);
  }
  if (wanted[1] && distribution) { // - log_softmax
    Value surprise = build.sub(getLogSum(), build.sub(getLogits(), getShift()));
    result[1] = inOrder(build, build.mul(surprise, cotangents[0]), type);
  }
  return result;
}
