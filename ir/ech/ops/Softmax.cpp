// softmax, logsumexp and cross-entropy: one family over the exponentials' sum.
#include "ir/ech/ops/Check.h"
#include "ir/ech/ops/Derive.h"

using namespace mlir;
using namespace echelon::ech;

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
  return checkAxes(*this, tensor(getResult()), axesWithout(operand, getOver()), "the result");
}
Division LogSumExpOp::division(StringRef axis) { return has(getOver(), axis) ? Division::Inside : Division::Freely; }
Padding LogSumExpOp::padding(unsigned, StringRef axis) { return lowestAlong(getOver(), axis); }
SmallVector<Value> LogSumExpOp::derive(Build &build, ArrayRef<Value> cotangents, ArrayRef<bool>) {
  Value share = build.map(Function::Exp, {build.sub(getOperand(), getResult())});
  return {build.mul(share, cotangents[0])};
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
  if (failed(checkAxes(*this, tensor(getLoss()), rest, "the loss")))
    return failure();
  return checkAxes(*this, tensor(getLogsumexp()), rest, "the logsumexp");
}
Division CrossEntropyOp::division(StringRef axis) { return has(getOver(), axis) ? Division::Inside : Division::Freely; }
// Of a distribution, 0 times the padding's -infinity would be read.
Padding CrossEntropyOp::padding(unsigned, StringRef axis) {
  if (has(getOver(), axis) && tensor(getLabels()).has(axis))
    return {Padding::Unknown};
  return lowestAlong(getOver(), axis);
}

// Element-wise in the saved logsumexp: (exp(x - lse) - [index = label]) dloss, and exp(x - lse) dlse.
SmallVector<Value> CrossEntropyOp::derive(Build &build, ArrayRef<Value> cotangents, ArrayRef<bool> wanted) {
  StringRef over = cast<StringAttr>(getOver()[0]).getValue();
  Tensor type = tensor(getLogits());
  bool distribution = tensor(getLabels()).has(over);
  SmallVector<Value> result(2);
  if (wanted[0]) {
    Value share = build.map(Function::Exp, {build.sub(getLogits(), getLogsumexp())});
    Value d;
    if (cotangents[0]) {
      Value target, scaled = share;
      if (distribution) {
        target = getLabels();
        scaled = build.mul(share, build.sum(getLabels(), {over})); // its sum is 1 for the user, not for rounding
      } else {
        Value here = build.map(Function::Eq, {build.index(over, type.sizeOf(over)), getLabels()});
        target = build.toReal(inOrder(build, here, type));
      }
      d = build.mul(build.sub(scaled, target), cotangents[0]);
    }
    if (cotangents[1]) {
      Value through = build.mul(share, cotangents[1]);
      d = d ? build.add(d, through) : through;
    }
    result[0] = inOrder(build, d, type);
  }
  if (wanted[1] && distribution && cotangents[0]) // - log_softmax
    result[1] = inOrder(build, build.mul(build.sub(getLogsumexp(), getLogits()), cotangents[0]), type);
  return result;
}
