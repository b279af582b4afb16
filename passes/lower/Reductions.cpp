// Reductions along axes, softmax, cross-entropy. Where an axis is split over ranks: what each rank finds, one message,
// what follows from all.
#include "passes/Passes.h"
#include "passes/lower/Lowering.h"

using namespace mlir;
using namespace echelon;
using namespace echelon::lower;

namespace {
/// (outer, n, inner) of an operand, and communication over the ranks that hold pieces of `over`.
struct Slices {
  Slices(Lowering &l, Operation *op, Value operand, ArrayAttr overNames)
      : l(l), op(op), loc(op->getLoc()), over(ech::strings(overNames)), mesh(l.insideOf(op)) {
    x = withMiddle(l, operand, over, outer, n, inner);
    element = rt::buffer(x).getElement();
    for (const Axis &a : rt::buffer(x).getAxes())
      if (!llvm::is_contained(over, a.name.getValue()))
        rest.push_back(a);
  }
  bool isSplit() const { return !mesh.empty(); }
  int64_t count() const { return outer * inner; }
  NameLoc named(StringRef name) { return NameLoc::get(l.b.getStringAttr(name), loc); }
  Value temporary(StringRef name) { return l.alloc(rest, element, NameLoc::get(l.b.getStringAttr(name), loc)); }
  Lowering::Call call(StringRef callee) { return Lowering::Call(l, callee, loc); }
  void reduceOverRanks(Value v, StringRef how) {
    l.collective("all_reduce", v, v, rt::buffer(v).count(), how, mesh, "auto", Lowering::whyInside(op), loc);
  }
  Value gatherOverRanks(Value v, StringRef name) {
    int64_t ranks = l.ranksOver(mesh);
    SmallVector<Axis> axes{l.axisBeside("rank", ranks, rt::buffer(v).getAxes())};
    llvm::append_range(axes, rt::buffer(v).getAxes());
    Value all = l.alloc(axes, rt::buffer(v).getElement(), NameLoc::get(l.b.getStringAttr(name), loc));
    l.collective("all_gather", v, all, rt::buffer(v).count(), "", mesh, "auto", Lowering::whyInside(op), loc);
    return all;
  }
  /// The maximum over the axes and all ranks.
  Value maximum() {
    Value m = temporary("maximum");
    call("reduce_max").out(m).in(x).number(outer).number(n).number(inner).done();
    reduceOverRanks(m, "Max");
    return m;
  }

  Lowering &l;
  Operation *op;
  Location loc;
  SmallVector<StringRef> over;
  SmallVector<int64_t> mesh;
  Value x;
  Type element;
  SmallVector<Axis> rest;
  int64_t outer, n, inner;
};

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
  if (s.isSplit())
    s.reduceOverRanks(out, max ? "Max" : "Min");
  return success();
}

LogicalResult lowerArgMax(Lowering &l, ech::ArgMaxOp op) {
  Slices s(l, op, op.getOperand(), op.getOver());
  Value out = l.resultAs(op.getResult(), s.rest);
  if (!s.isSplit()) {
    s.call("argmax").out(out).in(s.x).number(s.outer).number(s.n).number(s.inner).done();
    return success();
  }
  Value value = s.temporary("largest");
  Value first = l.offsetOf(ech::tensor(op.getOperand()), s.over[0]);
  auto call = s.call("max_with_index");
  call.out(value).out(out).in(s.x).number(s.outer).number(s.n).number(s.inner);
  (first ? call.index(first) : call.number(0)).done();
  // value and place travel in one message: places are whole numbers that the value's type holds
  int64_t ranks = l.ranksOver(s.mesh);
  Axis parts = l.axisBeside("part", 2, s.rest), rank = l.axisBeside("rank", ranks, s.rest);
  SmallVector<Axis> two{parts}, axes{rank};
  llvm::append_range(two, s.rest);
  llvm::append_range(axes, s.rest);
  Value both = l.alloc(two, s.element, s.named("message"));
  auto part = [&](Value of, int64_t i) { return l.slice(of, parts.name, i, s.loc); };
  l.copy(part(both, 0), value, s.loc);
  l.copy(part(both, 1), out, s.loc);
  Value all = s.gatherOverRanks(both, "gathered");
  Value values = l.alloc(axes, s.element, s.named("largest_of_all"));
  Value indices = l.alloc(axes, l.b.getI32Type(), s.named("places_of_all"));
  l.copy(values, part(all, 0), s.loc);
  l.copy(indices, part(all, 1), s.loc);
  auto combine = s.call("combine_max_with_index");
  combine.out(value).out(out).in(values).in(indices).number(ranks).number(s.count()).done();
  return success();
}

LogicalResult lowerSoftmax(Lowering &l, ech::SoftmaxOp op) {
  Slices s(l, op, op.getOperand(), op.getOver());
  Value out = l.resultAs(op.getResult(), rt::buffer(s.x).getAxes());
  if (!s.isSplit()) {
    s.call("softmax").out(out).in(s.x).number(s.outer).number(s.n).number(s.inner).share(0, 1).done();
    return success();
  }
  Value m = s.maximum(), sum = s.temporary("sum_of_exp");
  s.call("local_sum_exp").out(sum).in(s.x).in(m).number(s.outer).number(s.n).number(s.inner).done();
  s.reduceOverRanks(sum, "Sum");
  s.call("softmax_finish")
      .out(out)
      .in(s.x)
      .in(m)
      .in(sum)
      .number(s.outer)
      .number(s.n)
      .number(s.inner)
      .share(0, 1)
      .done();
  return success();
}

LogicalResult lowerLogSumExp(Lowering &l, ech::LogSumExpOp op) {
  Slices s(l, op, op.getOperand(), op.getOver());
  Value out = l.resultAs(op.getResult(), s.rest);
  Value shift = l.resultAs(op.getShift(), s.rest), logSum = l.resultAs(op.getLogSum(), s.rest);
  if (!s.isSplit()) {
    auto call = s.call("logsumexp");
    call.out(out).out(shift).out(logSum).in(s.x).number(s.outer).number(s.n).number(s.inner).done();
    return success();
  }
  Value m = s.maximum(), sum = s.temporary("sum_of_exp");
  s.call("local_sum_exp").out(sum).in(s.x).in(m).number(s.outer).number(s.n).number(s.inner).done();
  s.reduceOverRanks(sum, "Sum");
  s.call("logsumexp_finish").out(out).out(shift).out(logSum).in(m).in(sum).number(s.count()).done();
  return success();
}

/// x with the axis of classes last, as the kernels of cross-entropy want it.
LogicalResult lowerCrossEntropy(Lowering &l, ech::CrossEntropyOp op) {
  SmallVector<int64_t> mesh = l.insideOf(op);
  StringRef over = ech::strings(op.getOver())[0];
  Location loc = op.getLoc();
  SmallVector<Axis> rows;
  Axis classes;
  for (const Axis &a : l.local(op.getLogits()).getAxes())
    if (a.name == over)
      classes = a;
    else
      rows.push_back(a);
  SmallVector<Axis> all(rows);
  all.push_back(classes);
  Value x = l.denseAs(l.read(op.getLogits()), all, op.getLogits().getLoc());
  Type element = rt::buffer(x).getElement();
  int64_t count = Buffer::dense(rows, element).count(), vocab = classes.size;
  bool hasTarget = l.local(op.getLabels()).has(over);
  Value labels = l.denseAs(l.read(op.getLabels()), hasTarget ? all : rows, op.getLabels().getLoc());
  Value loss = l.result(op.getLoss()), shift = l.result(op.getShift()), logSum = l.result(op.getLogSum());
  auto named = [&](StringRef name) { return NameLoc::get(l.b.getStringAttr(name), loc); };
  auto call = [&](StringRef callee) { return Lowering::Call(l, callee, loc); };
  if (mesh.empty()) {
    if (!hasTarget) {
      auto whole = call("cross_entropy");
      whole.out(loss).out(shift).out(logSum).in(x).in(labels).number(count).number(vocab).done();
      return success();
    }
    Value mass = l.alloc(rows, element, named("mass"));
    auto whole = call("cross_entropy_target");
    whole.out(loss).out(shift).out(logSum).out(mass).in(x).in(labels).number(count).number(vocab).done();
    return success();
  }
  call("reduce_max").out(shift).in(x).number(count).number(vocab).number(1).done();
  l.collective("all_reduce", shift, shift, count, "Max", mesh, "auto", Lowering::whyInside(op), loc);
  // the sums travel as one message
  SmallVector<Axis> parts{l.axisBeside("part", hasTarget ? 3 : 2, rows)};
  llvm::append_range(parts, rows);
  Value sums = l.alloc(parts, element, named("sums"));
  auto part = [&](int64_t i, StringRef name) { return l.slice(sums, parts[0].name, i, named(name)); };
  Value sum = part(0, "sum_of_exp"), picked = part(1, "picked"), mass = hasTarget ? part(2, "mass") : Value();
  if (hasTarget) {
    auto local = call("cross_entropy_target_local");
    local.out(sum).out(picked).out(mass).in(x).in(shift).in(labels).number(count).number(vocab).done();
  } else {
    auto local = call("cross_entropy_local");
    local.out(sum).out(picked).in(x).in(shift).in(labels).number(count).number(vocab);
    Value first = l.offsetOf(ech::tensor(op.getLogits()), over);
    (first ? local.index(first) : local.number(0)).done();
  }
  l.collective("all_reduce", sums, sums, rt::buffer(sums).count(), "Sum", mesh, "auto", Lowering::whyInside(op), loc);
  if (hasTarget)
    call("cross_entropy_target_finish").out(loss).out(logSum).in(sum).in(picked).in(mass).number(count).done();
  else
    call("cross_entropy_finish").out(loss).out(logSum).in(sum).in(picked).number(count).done();
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

/// The squares of all operands, added in double; over ranks one sum; the root. Over a mesh axis of the sum, an operand
/// that is whole counts at coordinate 0.
LogicalResult lowerGlobalNorm(Lowering &l, ech::GlobalNormOp op) {
  Location loc = op.getLoc();
  SmallVector<int64_t> mesh = l.insideOf(op);
  OpBuilder &b = l.b;
  Type f64 = b.getF64Type();
  Value sum = l.alloc(ArrayRef<Axis>{}, f64, NameLoc::get(b.getStringAttr("sum_of_squares"), loc));
  l.fill(sum, 0, loc);
  auto names = op->getAttrOfType<ArrayAttr>(kParameters);
  for (auto [i, operand] : llvm::enumerate(op.getOperands())) {
    Value x = l.dense(operand);
    Lowering::Call call(l, "add_squares", loc);
    call.inOut(sum).in(x).number(rt::buffer(x).count());
    std::string first; // of the mesh axes over which it is whole, coordinate 0 alone counts it
    for (int64_t m : mesh)
      if (!dist::stateOf(operand)[m].isPart())
        first += (first.empty() ? "" : " && ") + ("r.coordinate(" + std::to_string(m) + ") == 0");
    if (!first.empty())
      call.word(first + " ? 1.0 : 0.0");
    call.done();
    // Where the sum is no longer finite, the first gradient that made it so is remembered.
    if (names && i < names.size())
      Lowering::Call(l, "r.watch", loc)
          .word(("\"" + cast<StringAttr>(names[i]).getValue() + "\"").str())
          .inOut(sum)
          .done();
  }
  if (!mesh.empty())
    l.collective("all_reduce", sum, sum, 1, "Sum", mesh, "auto", Lowering::whyInside(op), loc);
  Value out = l.result(op.getResult());
  l.loop(loc, out, sum, {}, "store", [&](OpBuilder &inner, ValueRange x) -> Value {
    Value root = rt::ComputeOp::create(inner, loc, f64, "sqrt", ValueRange{x[0]});
    Type element = rt::buffer(out).getElement();
    return element == f64 ? root : rt::ComputeOp::create(inner, loc, element, "cast", ValueRange{root}).getResult();
  });
  return success();
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
