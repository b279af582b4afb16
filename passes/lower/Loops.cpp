// Loop nests: groups of element-wise operations and sums, and free values where they are needed as a whole.
#include "passes/lower/Lowering.h"

using namespace mlir;
using namespace echelon;
using namespace echelon::lower;

namespace {
/// Builds one rt.fused from operations on tensors.
class NestBuilder {
public:
  NestBuilder(Lowering &l, Location loc) : l(l), loc(loc), body(std::make_unique<Block>()) {}

  void input(Value inner, Value outer) {
    Value buffer = l.read(outer);
    inputs.push_back(buffer);
    scalars[inner] = body->insertArgument(inputs.size() - 1, rt::buffer(buffer).getElement(), loc);
    for (const Axis &a : rt::buffer(buffer).getAxes())
      addAxis(a);
  }
  LogicalResult add(Operation *op);
  /// Yields `inner` as the value `outer`.
  LogicalResult output(Value inner, Value outer);
  void finish();

private:
  void addAxis(const Axis &axis) {
    if (llvm::none_of(axes, [&](const Axis &a) { return a.name == axis.name; }))
      axes.push_back(axis);
  }
  Value number(Value n, Type type) {
    numbers.push_back(n);
    return body->addArgument(type, loc);
  }
  Value along(Value of, StringRef axis, Location at) {
    OpBuilder b = builder();
    return rt::AlongOp::create(b, at, b.getI32Type(), axis, l.offsetOf(ech::tensor(of), axis));
  }
  /// The position along an axis of an element of a flat cut, which counts through a local piece in storage order.
  Value alongFlat(Value of, StringRef axis, Location at) {
    Tensor type = ech::tensor(of);
    Type i32 = l.b.getI32Type();
    int64_t stride = 1, size = dist::localSize(type, axis, l.mesh);
    SmallVector<StringRef> names = type.names();
    for (StringRef faster : llvm::reverse(names)) {
      if (faster == axis)
        break;
      stride *= dist::localSize(type, faster, l.mesh);
    }
    OpBuilder b = builder();
    Value element = rt::AlongOp::create(b, at, i32, "flat", l.flatOffset(type));
    Value row = compute("div", {element, literal(stride, i32, at)}, i32, at);
    Value rows =
        compute("mul", {compute("div", {row, literal(size, i32, at)}, i32, at), literal(size, i32, at)}, i32, at);
    Value place = compute("sub", {row, rows}, i32, at);
    Value first = l.offsetOf(type, axis);
    return first ? compute("add", {place, number(first, i32)}, i32, at) : place;
  }
  OpBuilder builder() {
    OpBuilder b(l.b.getContext());
    b.setInsertionPointToEnd(body.get());
    return b;
  }
  Value compute(StringRef f, ValueRange operands, Type type, Location at) {
    OpBuilder b = builder();
    return rt::ComputeOp::create(b, at, type, f, operands);
  }
  Value literal(double value, Type type, Location at) {
    OpBuilder b = builder();
    return rt::LiteralOp::create(b, at, type, b.getF64FloatAttr(value));
  }
  void sortAxes();

  Lowering &l;
  Location loc;
  std::unique_ptr<Block> body;
  SmallVector<Axis> axes;
  SmallVector<Value> inputs, numbers, outputs, yields;
  SmallVector<StringRef> modes;
  DenseMap<Value, Value> scalars;
  DenseMap<Value, Value> sums; // of reductions: what is summed
};

LogicalResult NestBuilder::add(Operation *op) {
  Value result = op->getResult(0);
  Type element = ech::tensor(result).getElement();
  Location at = op->getLoc();
  Value &scalar = scalars[result];
  auto operand = [&](Value v) { return scalars.lookup(v); };
  if (auto map = dyn_cast<ech::MapOp>(op)) {
    auto values = llvm::map_to_vector(map.getOperands(), operand);
    Value made = compute(ech::stringifyFunction(map.getFunction()), values, element, at);
    scalars[result] = made;
  } else if (isa<ech::ExpandOp>(op)) {
    scalar = operand(op->getOperand(0));
  } else if (auto reduce = dyn_cast<ech::ReduceOp>(op)) {
    for (const Axis &a : l.local(reduce.getOperand()).getAxes()) // also those that nothing read here has
      addAxis(a);
    sums[result] = operand(reduce.getOperand());
  } else if (auto constant = dyn_cast<ech::ConstantOp>(op)) {
    scalar = literal(constant.getValue().convertToDouble(), element, at);
  } else if (auto index = dyn_cast<ech::IndexOp>(op)) {
    for (const Axis &a : l.local(result).getAxes())
      addAxis(a);
    scalar = along(result, index.getAxis(), at);
  } else if (auto position = dyn_cast<ech::PositionOp>(op)) {
    Value index = l.positionOf(position.getAxis());
    if (!index)
      return l.refuse(op, "stands in no repeat over " + position.getAxis());
    scalar = number(index, element);
  } else if (auto count = dyn_cast<ech::CountOp>(op)) {
    double product = 1;
    StringRef batchAxis = ech::batchAxisOf(l.module);
    bool samples = false;
    for (auto [name, size] : llvm::zip(count.getOver(), count.getSizes())) {
      auto batch = l.module->getAttrOfType<IntegerAttr>("ech.batch");
      bool isBatch = cast<StringAttr>(name).getValue() == batchAxis;
      if (isBatch && l.evaluates)
        samples = true;
      else
        product *= isBatch && batch ? batch.getInt() : size;
    }
    scalar = literal(product, element, at);
    if (samples) {
      Value run = number(l.number("r.sampleCount()", l.b.getF64Type(), at), element);
      Value times = scalars[result];
      scalars[result] = product == 1 ? run : compute("mul", {run, times}, element, at);
    }
  } else if (auto run = dyn_cast<ech::ScalarOp>(op)) {
    StringRef name = run.getName();
    std::string text;
    Location named = at;
    if (name == "learning_rate") {
      auto lines = l.module->getAttrOfType<ArrayAttr>("ech.optimizers");
      bool last = !lines || lines.size() == run.getLine() + 1;
      text = last ? "lr" : "learning_rate_" + std::to_string(run.getLine()) + "(r.step())";
    } else if (name == "bias_correction") {
      text = "1 - std::pow(" + rt::literal(run.getBeta().convertToDouble(), l.b.getF64Type()) +
             ", static_cast<double>(r.step() + 1))";
      named = NameLoc::get(l.b.getStringAttr("bias_correction"), at);
    } else if (name == "step") {
      text = "static_cast<double>(r.step())";
    } else if (name == "samples") {
      text = "static_cast<double>(r.sampleCount())";
    } else {
      return l.refuse(op, "names a number that no run provides: " + name);
    }
    scalar = number(l.number(text, l.b.getF64Type(), named), element);
  } else if (auto read = dyn_cast<ech::ReadOp>(op); read && read.getSource() == ech::kValidSamples) {
    StringRef axis = l.local(result).getAxes()[0].name.getValue();
    for (const Axis &a : l.local(result).getAxes())
      addAxis(a);
    Value place = along(result, axis, at);
    Value count = number(l.number("r.validSamples()", l.b.getIndexType(), at), l.b.getI32Type());
    scalars[result] = compute("lt", {place, count}, element, at);
  } else if (auto mask = dyn_cast<dist::MaskOp>(op)) {
    Value value = operand(mask.getValue());
    for (Attribute name : mask.getAxes()) {
      StringRef axis = cast<StringAttr>(name).getValue();
      bool flat = !dist::flatCuts(ech::tensor(mask.getValue())).empty();
      Value place = flat ? alongFlat(mask.getValue(), axis, at) : along(mask.getValue(), axis, at);
      Value size = literal(ech::tensor(mask.getValue()).sizeOf(axis), l.b.getI32Type(), at);
      Value inside = compute("lt", {place, size}, l.b.getI1Type(), at);
      value = compute("select", {inside, value, literal(mask.getFill().convertToDouble(), element, at)}, element, at);
    }
    scalars[result] = value;
  } else if (auto slice = dyn_cast<dist::SliceOp>(op)) { // coordinate 0 holds it
    Value value = operand(slice.getValue());
    for (int m : dist::sums(ech::tensor(slice.getResult())))
      if (dist::stateOf(slice.getValue())[m].hold != dist::Hold::Sum && l.mesh.sizeOf(m) > 1)
        value = compute("mul", {value, number(l.isFirst(m, at), element)}, element, at);
    scalars[result] = value;
  } else {
    return l.refuse(op, "cannot stand in a loop nest");
  }
  return success();
}

LogicalResult NestBuilder::output(Value inner, Value outer) {
  auto sum = sums.find(inner);
  for (const Axis &a : l.local(outer).getAxes())
    addAxis(a);
  l.places.insert({outer, inner.getLoc()});
  Slot slot = l.target(outer);
  yields.push_back(sum != sums.end() ? sum->second : scalars.lookup(inner));
  outputs.push_back(slot.buffer);
  modes.push_back(slot.adds ? "add" : sum != sums.end() ? "sum" : "store");
  return success();
}

/// Loops in the order of storage of what is stored whole, or else read whole; other axes outside of them.
void NestBuilder::sortAxes() {
  Value guide;
  auto consider = [&](Value v) {
    if (!guide || rt::buffer(v).rank() > rt::buffer(guide).rank())
      guide = v;
  };
  for (Value v : outputs)
    consider(v);
  for (Value v : inputs)
    consider(v);
  if (!guide)
    return;
  Buffer type = rt::buffer(guide);
  llvm::stable_sort(axes, [&](const Axis &a, const Axis &b) {
    bool hasA = type.has(a.name), hasB = type.has(b.name);
    if (hasA != hasB)
      return hasB;
    return hasA && type.strideOf(a.name) > type.strideOf(b.name);
  });
}

void NestBuilder::finish() {
  sortAxes();
  SmallVector<StringRef> names;
  SmallVector<int64_t> sizes;
  for (const Axis &a : axes) {
    names.push_back(a.name);
    sizes.push_back(a.size);
  }
  OpBuilder end = builder();
  rt::YieldOp::create(end, loc, yields);
  auto fused = rt::FusedOp::create(l.b, loc, l.b.getStrArrayAttr(names), l.b.getDenseI64ArrayAttr(sizes), inputs,
                                   numbers, l.b.getStrArrayAttr(modes), outputs);
  fused.getBody().push_back(body.release());
}

LogicalResult lowerGroup(Lowering &l, rt::GroupOp op) {
  if (l.isAddedUp(op))
    return success();
  Block &block = op.getBody().front();
  NestBuilder nest(l, op.getLoc());
  for (auto [argument, value] : llvm::zip(block.getArguments(), op.getInputs()))
    nest.input(argument, value);
  for (Operation &inner : block.without_terminator())
    if (failed(nest.add(&inner)))
      return failure();
  for (auto [inner, outer] : llvm::zip(block.getTerminator()->getOperands(), op.getOutputs()))
    if (failed(nest.output(inner, outer)))
      return failure();
  nest.finish();
  return success();
}

/// One element-wise operation that no group took.
template <typename Op> LogicalResult lowerAlone(Lowering &l, Op op) {
  if (l.isAddedUp(op))
    return success();
  NestBuilder nest(l, op.getLoc());
  for (Value v : op->getOperands())
    nest.input(v, v);
  if (failed(nest.add(op)))
    return failure();
  return nest.output(op->getResult(0), op->getResult(0)).succeeded() ? (nest.finish(), success()) : failure();
}
} // namespace

void echelon::lower::addLoops(Lowering &l) {
  l.add<rt::GroupOp>(lowerGroup);
  l.add<ech::MapOp>(lowerAlone<ech::MapOp>);
  l.add<dist::MaskOp>(lowerAlone<dist::MaskOp>);
  // free values that something else than a loop nest reads
  l.add<ech::ConstantOp>(lowerAlone<ech::ConstantOp>);
  l.add<ech::CountOp>(lowerAlone<ech::CountOp>);
  l.add<ech::IndexOp>(lowerAlone<ech::IndexOp>);
  l.add<ech::ScalarOp>(lowerAlone<ech::ScalarOp>);
  l.add<ech::PositionOp>(lowerAlone<ech::PositionOp>);
}
