// Reductions along axes, softmax, cross-entropy, where one rank holds all of the axes. (Partials.cpp: where several
// do.)
#include "passes/lower/Slices.h"

using namespace mlir;
using namespace echelon;
using namespace echelon::lower;

namespace {
void reduce(Slices &s, rt::Reduction kind, Value out, bool adds = false) {
  rt::ReduceOp::create(s.l.b, s.loc, kind, out, s.x, s.outer, s.n, s.inner, adds);
}

LogicalResult lowerReduce(Lowering &l, ech::ReduceOp op) {
  Slices s(l, op, op.getOperand(), op.getOver());
  if (op.getKind() != ech::Reduction::Sum) {
    const bool isMax = op.getKind() == ech::Reduction::Max;
    reduce(s, isMax ? rt::Reduction::Max : rt::Reduction::Min, l.resultAs(op.getResult(), s.rest));
    return success();
  }
  Buffer natural = Buffer::dense(s.rest, s.element);
  if (natural != l.bufferType(op.getResult())) {
    reduce(s, rt::Reduction::Sum, l.resultAs(op.getResult(), s.rest));
    return success();
  }
  Destination destination = l.target(op.getResult());
  if (rt::buffer(destination.buffer).isDense()) {
    reduce(s, rt::Reduction::Sum, destination.buffer, destination.adds);
    return success();
  }
  Value own = l.alloc(natural, op.getLoc());
  reduce(s, rt::Reduction::Sum, own);
  l.copy(destination.buffer, own, op.getLoc(), destination.adds);
  return success();
}

LogicalResult lowerArgMax(Lowering &l, ech::ArgMaxOp op) {
  Slices s(l, op, op.getOperand(), op.getOver());
  reduce(s, rt::Reduction::ArgMax, l.resultAs(op.getResult(), s.rest));
  return success();
}

LogicalResult lowerSoftmax(Lowering &l, ech::SoftmaxOp op) {
  Slices s(l, op, op.getOperand(), op.getOver());
  Value out = l.resultAs(op.getResult(), rt::buffer(s.x).getAxes());
  rt::SoftmaxOp::create(l.b, s.loc, out, s.x, s.outer, s.n, s.inner);
  return success();
}

LogicalResult lowerLogSumExp(Lowering &l, ech::LogSumExpOp op) {
  Slices s(l, op, op.getOperand(), op.getOver());
  Value out = l.resultAs(op.getResult(), s.rest);
  Value shift = l.resultAs(op.getShift(), s.rest), logSum = l.resultAs(op.getLogSum(), s.rest);
  rt::LogSumExpOp::create(l.b, s.loc, out, shift, logSum, s.x, s.outer, s.n, s.inner);
  return success();
}

LogicalResult lowerCrossEntropy(Lowering &l, ech::CrossEntropyOp op) {
  const Classes c(l, op.getLogits(), op.getLabels(), ech::strings(op.getOver())[0]);
  Location loc = op.getLoc();
  Value loss = l.result(op.getLoss()), shift = l.result(op.getShift()), logSum = l.result(op.getLogSum());
  Value mass = c.hasTarget ? l.alloc(c.rows, rt::buffer(c.x).getElement(), NameLoc::get(l.b.getStringAttr("mass"), loc))
                           : Value();
  rt::CrossEntropyOp::create(l.b, loc, loss, shift, logSum, mass, c.x, c.labels, c.count, c.vocab, rt::SizeAttr());
  return success();
}

LogicalResult lowerCumSum(Lowering &l, ech::CumSumOp op) {
  Slices s(l, op, op.getOperand(), op.getOver());
  Value out = l.resultAs(op.getResult(), rt::buffer(s.x).getAxes());
  rt::CumSumOp::create(l.b, s.loc, out, s.x, s.outer, s.n, s.inner, op.getReverse());
  return success();
}

LogicalResult lowerOrthogonalize(Lowering &l, ech::OrthogonalizeOp op) {
  Slices s(l, op, op.getOperand(), op.getOver());
  Value out = l.resultAs(op.getResult(), rt::buffer(s.x).getAxes());
  rt::OrthogonalizeOp::create(l.b, s.loc, out, s.x, s.outer, s.n, s.inner);
  return success();
}

LogicalResult lowerTop(Lowering &l, ech::TopOp op) {
  Slices s(l, op, op.getOperand(), op.getOver());
  int64_t k = l.local(op.getResult()).sizeOf(op.getInto());
  SmallVector<Axis> order;
  for (const Axis &a : rt::buffer(s.x).getAxes())
    order.push_back(a.name == s.over[0] ? Axis{op.getIntoAttr(), k} : a);
  Value out = l.resultAs(op.getResult(), order);
  rt::TopKOp::create(l.b, s.loc, out, s.x, s.outer, s.n, s.inner, k);
  return success();
}

LogicalResult lowerGlobalNorm(Lowering &l, ech::GlobalNormOp op) {
  Location loc = op.getLoc();
  Value sum = l.alloc(ArrayRef<Axis>{}, l.b.getF64Type(), NameLoc::get(l.b.getStringAttr("sum_of_squares"), loc));
  addSquares(l, op, sum, {});
  return root(l, op.getResult(), sum, loc);
}
} // namespace

void echelon::lower::addReductions(Lowering &l) {
  l.add<ech::ReduceOp>(lowerReduce);
  l.add<ech::ArgMaxOp>(lowerArgMax);
  l.add<ech::SoftmaxOp>(lowerSoftmax);
  l.add<ech::LogSumExpOp>(lowerLogSumExp);
  l.add<ech::CrossEntropyOp>(lowerCrossEntropy);
  l.add<ech::CumSumOp>(lowerCumSum);
  l.add<ech::OrthogonalizeOp>(lowerOrthogonalize);
  l.add<ech::TopOp>(lowerTop);
  l.add<ech::GlobalNormOp>(lowerGlobalNorm);
}
