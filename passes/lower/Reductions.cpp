// Reductions along axes, softmax, cross-entropy, where one rank holds all of the axes. (Partials.cpp: where several
// do.)
#include "passes/lower/Slices.h"

using namespace mlir;
using namespace echelon;
using namespace echelon::lower;

namespace {
LogicalResult lowerReduce(Lowering &l, ech::ReduceOp op) {
  Slices s(l, op, op.getOperand(), op.getOver());
  if (op.getKind() == ech::Reduction::Sum) {
    Buffer natural = Buffer::dense(s.rest, s.element);
    if (natural == l.bufferType(op.getResult())) {
      Slot slot = l.target(op.getResult());
      if (rt::buffer(slot.buffer).isDense()) {
        auto call = s.call("reduce_sum");
        (slot.adds ? call.inOut(slot.buffer) : call.out(slot.buffer)).in(s.x);
        call.number(s.outer).number(s.n).number(s.inner);
        if (slot.adds)
          call.flag(true);
        call.done();
        return success();
      }
      Value own = l.alloc(natural, op.getLoc());
      s.call("reduce_sum").out(own).in(s.x).number(s.outer).number(s.n).number(s.inner).done();
      l.copy(slot.buffer, own, op.getLoc(), slot.adds);
      return success();
    }
    Value out = l.resultAs(op.getResult(), s.rest);
    s.call("reduce_sum").out(out).in(s.x).number(s.outer).number(s.n).number(s.inner).done();
    return success();
  }
  bool max = op.getKind() == ech::Reduction::Max;
  Value out = l.resultAs(op.getResult(), s.rest);
  s.call(max ? "reduce_max" : "reduce_min").out(out).in(s.x).number(s.outer).number(s.n).number(s.inner).done();
  return success();
}

LogicalResult lowerArgMax(Lowering &l, ech::ArgMaxOp op) {
  Slices s(l, op, op.getOperand(), op.getOver());
  Value out = l.resultAs(op.getResult(), s.rest);
  s.call("argmax").out(out).in(s.x).number(s.outer).number(s.n).number(s.inner).done();
  return success();
}

LogicalResult lowerSoftmax(Lowering &l, ech::SoftmaxOp op) {
  Slices s(l, op, op.getOperand(), op.getOver());
  Value out = l.resultAs(op.getResult(), rt::buffer(s.x).getAxes());
  s.call("softmax").out(out).in(s.x).number(s.outer).number(s.n).number(s.inner).share(0, 1).done();
  return success();
}

LogicalResult lowerLogSumExp(Lowering &l, ech::LogSumExpOp op) {
  Slices s(l, op, op.getOperand(), op.getOver());
  Value out = l.resultAs(op.getResult(), s.rest);
  Value shift = l.resultAs(op.getShift(), s.rest), logSum = l.resultAs(op.getLogSum(), s.rest);
  auto call = s.call("logsumexp");
  call.out(out).out(shift).out(logSum).in(s.x).number(s.outer).number(s.n).number(s.inner).done();
  return success();
}

LogicalResult lowerCrossEntropy(Lowering &l, ech::CrossEntropyOp op) {
  const Classes c(l, op.getLogits(), op.getLabels(), ech::strings(op.getOver())[0]);
  Location loc = op.getLoc();
  Value loss = l.result(op.getLoss()), shift = l.result(op.getShift()), logSum = l.result(op.getLogSum());
  if (!c.hasTarget) {
    Lowering::Call call(l, "cross_entropy", loc);
    call.out(loss).out(shift).out(logSum).in(c.x).in(c.labels).number(c.count).number(c.vocab).done();
    return success();
  }
  Value mass = l.alloc(c.rows, rt::buffer(c.x).getElement(), NameLoc::get(l.b.getStringAttr("mass"), loc));
  Lowering::Call call(l, "cross_entropy_target", loc);
  call.out(loss).out(shift).out(logSum).out(mass).in(c.x).in(c.labels).number(c.count).number(c.vocab).done();
  return success();
}

LogicalResult lowerCumSum(Lowering &l, ech::CumSumOp op) {
  Slices s(l, op, op.getOperand(), op.getOver());
  Value out = l.resultAs(op.getResult(), rt::buffer(s.x).getAxes());
  auto call = s.call("cumsum");
  call.out(out).in(s.x).number(s.outer).number(s.n).number(s.inner).share(0, 1);
  if (op.getReverse())
    call.flag(true);
  call.done();
  return success();
}

LogicalResult lowerTop(Lowering &l, ech::TopOp op) {
  Slices s(l, op, op.getOperand(), op.getOver());
  int64_t k = l.local(op.getResult()).sizeOf(op.getInto());
  SmallVector<Axis> order;
  for (const Axis &a : rt::buffer(s.x).getAxes())
    order.push_back(a.name == s.over[0] ? Axis{op.getIntoAttr(), k} : a);
  Value out = l.resultAs(op.getResult(), order);
  s.call("top_k").out(out).in(s.x).number(s.outer).number(s.n).number(s.inner).number(k).done();
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
  l.add<ech::TopOp>(lowerTop);
  l.add<ech::GlobalNormOp>(lowerGlobalNorm);
}
