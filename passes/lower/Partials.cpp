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
  partial(l, s.loc, rt::PartialKind::SumExp, sum, {s.x, maximum}, {s.outer, s.n, s.inner});
  return success();
}

LogicalResult lowerMaximum(Lowering &l, dist::PartialOp op) {
  Slices s(l, op, op.getOperands()[0], op.getAlong());
  Value maximum = l.resultAs(op.getResults()[0], s.rest);
  rt::ReduceOp::create(l.b, s.loc, rt::Reduction::Max, maximum, s.x, s.outer, s.n, s.inner, false);
  return success();
}

LogicalResult lowerCrossEntropyPartial(Lowering &l, dist::PartialOp op) {
  ValueRange operands = op.getOperands();
  StringRef over = ech::strings(op.getAlong())[0];
  const Classes c(l, operands[0], operands[2], over);
  Value shift = l.denseAs(l.read(operands[1]), c.rows, op.getLoc());
  SmallVector<Value> results;
  for (Value result : op.getResults()) {
    l.places.insert(
        {result, NameLoc::get(l.b.getStringAttr(op.nameOf(cast<OpResult>(result).getResultNumber())), op.getLoc())});
    results.push_back(l.result(result));
  }
  auto kind = c.hasTarget ? rt::PartialKind::CrossEntropyTarget : rt::PartialKind::CrossEntropy;
  const SmallVector<Lowering::Segment> classes = l.segmentsOf(ech::tensor(operands[0]), over);
  Value first = c.hasTarget || classes.size() > 1 ? Value() : l.beginOf(classes.front()), labels = c.labels;
  if (!c.hasTarget && classes.size() > 1) {
    labels = l.alloc(rt::buffer(c.labels), NameLoc::get(l.b.getStringAttr("label_place"), op.getLoc()));
    l.translate(labels, c.labels, classes, /*toLogical=*/false, op.getLoc());
  }
  partial(l, op.getLoc(), kind, results, {c.x, shift, labels}, {c.count, c.vocab}, first);
  return success();
}

/// Value and place travel in one message: places are whole numbers that the value's type holds.
LogicalResult lowerLargest(Lowering &l, dist::PartialOp op) {
  Value x = op.getOperands()[0];
  Slices s(l, op, x, op.getAlong());
  Value both = l.result(op.getResults()[0]);
  StringRef part = rt::buffer(both).getAxes()[0].name;
  Value place = l.alloc(s.rest, l.b.getI32Type(), s.named("place"));
  const SmallVector<Lowering::Segment> segments = l.segmentsOf(ech::tensor(x), s.over[0]);
  Value first = segments.size() > 1 ? Value() : l.beginOf(segments.front()), largest = l.slice(both, part, 0, s.loc);
  partial(l, s.loc, rt::PartialKind::Largest, {largest, place}, s.x, {s.outer, s.n, s.inner}, first);
  if (segments.size() > 1)
    l.translate(place, place, segments, /*toLogical=*/true, s.loc);
  l.copy(l.slice(both, part, 1, s.named("places")), place, s.loc);
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
  combine(l, s.loc, rt::CombineKind::Softmax, out, {s.x, maximum, sum}, {s.outer, s.n, s.inner});
  return success();
}

/// All operands and results have the same axes.
LogicalResult lowerOfSums(Lowering &l, dist::CombineOp op, rt::CombineKind kind) {
  SmallVector<Value> results, operands;
  for (Value result : op.getResults())
    results.push_back(l.result(result));
  for (Value operand : op.getOperands())
    operands.push_back(l.denseAs(l.read(operand), l.local(op.getResults()[0]).getAxes(), op.getLoc()));
  combine(l, op.getLoc(), kind, results, operands, l.size(rt::buffer(results[0]).getAxes()));
  return success();
}

LogicalResult lowerArgMaxOfAll(Lowering &l, dist::CombineOp op) {
  Value all = l.dense(op.getOperands()[0]), out = l.result(op.getResults()[0]);
  combine(l, op.getLoc(), rt::CombineKind::Largest, out, all,
          {l.size(rt::buffer(all).getAxes()[0]), l.size(rt::buffer(out).getAxes())});
  return success();
}

LogicalResult lowerCombine(Lowering &l, dist::CombineOp op) {
  switch (op.getKind()) {
  case Combination::Softmax:
    return lowerSoftmaxOfAll(l, op);
  case Combination::LogSumExp:
    return lowerOfSums(l, op, rt::CombineKind::LogSumExp);
  case Combination::CrossEntropy:
    return lowerOfSums(l, op,
                       op.getNumOperands() == 3 ? rt::CombineKind::CrossEntropyTarget : rt::CombineKind::CrossEntropy);
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
