// Reductions along an axis that several ranks hold: what each finds of its part, what follows from all. The messages
// between are in Messages.cpp.
#include "passes/lower/Slices.h"

using namespace mlir;
using namespace echelon;
using namespace echelon::lower;
using dist::Combination;
using dist::Partial;

namespace {
LogicalResult lowerSumOfExp(Lowering &l, dist::PartialOp op) {
  Slices s(l, op, op.getOperands()[0], op.getAlong());
  Value maximum = l.denseAs(l.read(op.getOperands()[1]), s.rest, s.loc), sum = l.resultAs(op.getResults()[0], s.rest);
  s.call("local_sum_exp").out(sum).in(s.x).in(maximum).number(s.outer).number(s.n).number(s.inner).done();
  return success();
}

LogicalResult lowerMaximum(Lowering &l, dist::PartialOp op) {
  Slices s(l, op, op.getOperands()[0], op.getAlong());
  Value maximum = l.resultAs(op.getResults()[0], s.rest);
  s.call("reduce_max").out(maximum).in(s.x).number(s.outer).number(s.n).number(s.inner).done();
  return success();
}

LogicalResult lowerCrossEntropyPartial(Lowering &l, dist::PartialOp op) {
  ValueRange operands = op.getOperands();
  StringRef over = ech::strings(op.getAlong())[0];
  const Classes c(l, operands[0], operands[2], over);
  Value shift = l.denseAs(l.read(operands[1]), c.rows, op.getLoc());
  Lowering::Call call(l, c.hasTarget ? "cross_entropy_target_local" : "cross_entropy_local", op.getLoc());
  for (Value result : op.getResults()) {
    l.places.insert(
        {result, NameLoc::get(l.b.getStringAttr(op.nameOf(cast<OpResult>(result).getResultNumber())), op.getLoc())});
    call.out(l.result(result));
  }
  call.in(c.x).in(shift).in(c.labels).number(c.count).number(c.vocab);
  if (!c.hasTarget) {
    Value first = l.offsetOf(ech::tensor(operands[0]), over);
    first ? call.index(first) : call.number(0);
  }
  call.done();
  return success();
}

/// Value and place travel in one message: places are whole numbers that the value's type holds.
LogicalResult lowerLargest(Lowering &l, dist::PartialOp op) {
  Value x = op.getOperands()[0];
  Slices s(l, op, x, op.getAlong());
  Value largest = s.temporary("largest"), place = l.alloc(s.rest, l.b.getI32Type(), s.named("place"));
  Value first = l.offsetOf(ech::tensor(x), s.over[0]);
  auto call = s.call("max_with_index");
  call.out(largest).out(place).in(s.x).number(s.outer).number(s.n).number(s.inner);
  (first ? call.index(first) : call.number(0)).done();
  Value both = l.result(op.getResults()[0]);
  StringRef part = rt::buffer(both).getAxes()[0].name;
  l.copy(l.slice(both, part, 0, s.loc), largest, s.loc);
  l.copy(l.slice(both, part, 1, s.loc), place, s.loc);
  return success();
}

LogicalResult lowerPartial(Lowering &l, dist::PartialOp op) {
  switch (op.getKind()) {
  case Partial::Maximum:
    return lowerMaximum(l, op);
  case Partial::SumOfExp:
    return lowerSumOfExp(l, op);
  case Partial::CrossEntropy:
    return lowerCrossEntropyPartial(l, op);
  case Partial::Largest:
    return lowerLargest(l, op);
  case Partial::AllSquares: {
    Value sum = op.getResults()[0];
    addSquares(l, op, l.result(sum), dist::sums(ech::tensor(sum)));
    return success();
  }
  default:
    return lowerNormPartial(l, op);
  }
}

LogicalResult lowerCollect(Lowering &l, dist::CollectOp op) {
  SmallVector<int64_t> over;
  for (StringRef name : ech::strings(op.getOver()))
    over.push_back(l.mesh.index(name));
  Value own = l.dense(op.getValue()), all = l.result(op.getResult());
  l.collective("all_gather", own, all, rt::buffer(own).count(), "", over, op.getAlgorithm(), op.getWhy(), op.getLoc());
  return success();
}

LogicalResult lowerSoftmaxOfAll(Lowering &l, dist::CombineOp op) {
  ValueRange operands = op.getOperands();
  Slices s(l, op, operands[0], op.getAlong());
  Value maximum = l.denseAs(l.read(operands[1]), s.rest, s.loc), sum = l.denseAs(l.read(operands[2]), s.rest, s.loc);
  Value out = l.resultAs(op.getResults()[0], rt::buffer(s.x).getAxes());
  auto call = s.call("softmax_finish");
  call.out(out).in(s.x).in(maximum).in(sum).number(s.outer).number(s.n).number(s.inner).share(0, 1).done();
  return success();
}

/// All operands and results have the same axes.
LogicalResult lowerOfSums(Lowering &l, dist::CombineOp op, StringRef callee) {
  Lowering::Call call(l, callee, op.getLoc());
  for (Value result : op.getResults())
    call.out(l.result(result));
  for (Value operand : op.getOperands())
    call.in(l.denseAs(l.read(operand), l.local(op.getResults()[0]).getAxes(), op.getLoc()));
  call.number(rt::buffer(l.read(op.getResults()[0])).count()).done();
  return success();
}

LogicalResult lowerArgMaxOfAll(Lowering &l, dist::CombineOp op) {
  Location loc = op.getLoc();
  auto named = [&](StringRef name) { return NameLoc::get(l.b.getStringAttr(name), loc); };
  Value all = l.dense(op.getOperands()[0]), out = l.result(op.getResults()[0]);
  Buffer type = rt::buffer(all); // (rank, part, …)
  SmallVector<Axis> axes(type.getAxes());
  StringRef part = axes[1].name;
  axes.erase(axes.begin() + 1);
  Value values = l.alloc(axes, type.getElement(), named("values_of_all"));
  Value places = l.alloc(axes, l.b.getI32Type(), named("places_of_all"));
  l.copy(values, l.slice(all, part, 0, loc), loc);
  l.copy(places, l.slice(all, part, 1, loc), loc);
  Value largest = l.alloc(ArrayRef<Axis>(axes).drop_front(), type.getElement(), named("largest"));
  Lowering::Call call(l, "combine_max_with_index", loc);
  call.out(largest).out(out).in(values).in(places).number(axes[0].size).number(rt::buffer(out).count()).done();
  return success();
}

LogicalResult lowerCombine(Lowering &l, dist::CombineOp op) {
  switch (op.getKind()) {
  case Combination::Softmax:
    return lowerSoftmaxOfAll(l, op);
  case Combination::LogSumExp:
    return lowerOfSums(l, op, "logsumexp_finish");
  case Combination::CrossEntropy:
    return lowerOfSums(l, op, op.getNumOperands() == 3 ? "cross_entropy_target_finish" : "cross_entropy_finish");
  case Combination::ArgMax:
    return lowerArgMaxOfAll(l, op);
  case Combination::Root:
    return root(l, op.getResults()[0], l.read(op.getOperands()[0]), op.getLoc());
  default:
    return lowerNormCombine(l, op);
  }
}
} // namespace

void echelon::lower::addPartials(Lowering &l) {
  l.add<dist::PartialOp>(lowerPartial);
  l.add<dist::CollectOp>(lowerCollect);
  l.add<dist::CombineOp>(lowerCombine);
}
