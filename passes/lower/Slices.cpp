#include "passes/lower/Slices.h"
#include "passes/Passes.h"
#include "passes/lower/Places.h"

using namespace mlir;
using namespace echelon;
using namespace echelon::lower;

Slices::Slices(Lowering &l, Operation *op, Value operand, ArrayAttr overNames)
    : l(l), loc(op->getLoc()), over(ech::strings(overNames)) {
  Around axes;
  x = withMiddle(l, operand, over, axes);
  outer = l.size(axes.outer);
  n = l.size(axes.n);
  inner = l.size(axes.inner);
  element = rt::buffer(x).getElement();
  for (const Axis &a : rt::buffer(x).getAxes())
    if (!llvm::is_contained(over, a.name.getValue()))
      rest.push_back(a);
}

Classes::Classes(Lowering &l, Value logits, Value given, StringRef over) {
  SmallVector<Axis> all;
  Axis classes;
  for (const Axis &a : l.local(logits).getAxes())
    if (a.name == over)
      classes = a;
    else
      rows.push_back(a);
  all = rows;
  all.push_back(classes);
  x = l.denseAs(l.read(logits), all, logits.getLoc());
  count = l.size(rows);
  vocab = l.size(classes);
  hasTarget = l.local(given).has(over);
  labels = l.denseAs(l.read(given), hasTarget ? all : rows, given.getLoc());
}

void echelon::lower::addSquares(Lowering &l, Operation *op, Value sum, ArrayRef<int> mesh) {
  Location loc = op->getLoc();
  l.fill(sum, 0, loc);
  auto names = op->getAttrOfType<ArrayAttr>(kParameters);
  for (auto [i, operand] : llvm::enumerate(op->getOperands())) {
    const dist::StateAttr state = dist::stateOf(operand);
    const dist::Place place = dist::placeOf(state);
    Marking marking(l, place);
    SmallVector<Value> counts; // where coordinate 0 alone counts it
    for (int m : mesh)
      if (!state[m].isPart() && !dist::placedAt(state[m]))
        counts.push_back(l.isFirst(m, loc));
    rt::AddSquaresOp::create(l.b, loc, sum, l.dense(operand), counts,
                             names && i < names.size() ? cast<StringAttr>(names[i]) : StringAttr());
  }
}

LogicalResult echelon::lower::root(Lowering &l, Value result, Value sum, Location loc) {
  Type f64 = l.b.getF64Type();
  Value out = l.result(result);
  l.loop(loc, out, sum, {}, "store", [&](OpBuilder &inner, ValueRange x) -> Value {
    Value root = rt::ComputeOp::create(inner, loc, f64, "sqrt", ValueRange{x[0]});
    Type element = rt::buffer(out).getElement();
    return element == f64 ? root : rt::ComputeOp::create(inner, loc, element, "cast", ValueRange{root}).getResult();
  });
  return success();
}

void echelon::lower::partial(Lowering &l, Location loc, rt::PartialKind kind, ValueRange outs, ValueRange inputs,
                             ArrayRef<rt::SizeAttr> sizes, Value first) {
  SmallVector<Attribute> all(sizes.begin(), sizes.end());
  rt::PartialOp::create(l.b, loc, kind, outs, inputs, l.b.getArrayAttr(all), first);
}
void echelon::lower::combine(Lowering &l, Location loc, rt::CombineKind kind, ValueRange outs, ValueRange inputs,
                             ArrayRef<rt::SizeAttr> sizes, std::optional<int64_t> total,
                             std::optional<double> epsilon) {
  SmallVector<Attribute> all(sizes.begin(), sizes.end());
  rt::CombineOp::create(l.b, loc, kind, outs, inputs, l.b.getArrayAttr(all),
                        total ? l.b.getI64IntegerAttr(*total) : IntegerAttr(),
                        epsilon ? l.b.getF64FloatAttr(*epsilon) : FloatAttr());
}
