// Loop nests: groups of element-wise operations and sums, and free values where they are needed as a whole.
#include "ir/run/Run.h"
#include "passes/Phase.h"
#include "passes/lower/Lowering.h"
#include "llvm/ADT/TypeSwitch.h"

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
    return l.placeAlong(b, at, ech::tensor(of), axis);
  }
  /// The position along an axis of an element of a flat cut, which counts through a local piece in storage order.
  Value alongFlat(Value of, StringRef axis, Location at) {
    Tensor type = ech::tensor(of);
    if (type.position(axis) < int(dist::axesAboveFlat(type)))
      return along(of, axis, at);
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
    Value logical;
    for (const Lowering::Segment &segment : l.segmentsOf(type, axis)) {
      Value shift = l.shiftOf(segment), here = shift ? compute("add", {place, number(shift, i32)}, i32, at) : place;
      Value isBefore = logical ? compute("lt", {place, literal(segment.at, i32, at)}, l.b.getI1Type(), at) : Value();
      logical = logical ? compute("select", {isBefore, logical, here}, i32, at) : here;
    }
    return logical;
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

  static Type elementOf(Value v) { return ech::tensor(v).getElement(); }
  /// The element that an operation makes of those of its operands.
  Value scalarOf(ech::MapOp op);
  Value scalarOf(ech::ExpandOp op) { return scalars.lookup(op->getOperand(0)); }
  Value scalarOf(ech::ConstantOp op) {
    return literal(op.getValue().convertToDouble(), elementOf(op.getResult()), op.getLoc());
  }
  Value scalarOf(ech::IndexOp op) { return along(op.getResult(), op.getAxis(), op.getLoc()); }
  FailureOr<Value> scalarOf(ech::PositionOp op);
  Value scalarOf(ech::CountOp op);
  FailureOr<Value> scalarOf(ech::ScalarOp op);
  FailureOr<Value> scalarOf(ech::ReadOp op);
  Value scalarOf(dist::MaskOp op);
  Value scalarOf(dist::SliceOp op);

  Lowering &l;
  Location loc;
  std::unique_ptr<Block> body;
  SmallVector<Axis> axes;
  SmallVector<Value> inputs, numbers, outputs, yields;
  SmallVector<StringRef> modes;
  DenseMap<Value, Value> scalars;
  DenseMap<Value, Value> sums;    // of reductions: what is summed
  DenseMap<Value, Value> rounded; // of values that were made here and are kept in two bytes: the element as it is kept
};

LogicalResult NestBuilder::add(Operation *op) {
  if (auto reduce = dyn_cast<ech::ReduceOp>(op)) {
    for (const Axis &a : l.local(reduce.getOperand()).getAxes()) // also those that nothing read here has
      addAxis(a);
    sums[reduce.getResult()] = scalars.lookup(reduce.getOperand());
    return success();
  }
  if (isa<ech::IndexOp, ech::ReadOp>(op)) // positions: of all axes that the result has
    for (const Axis &a : l.local(op->getResult(0)).getAxes())
      addAxis(a);
  FailureOr<Value> scalar =
      llvm::TypeSwitch<Operation *, FailureOr<Value>>(op)
          .Case<ech::MapOp, ech::ExpandOp, ech::ConstantOp, ech::IndexOp, ech::PositionOp, ech::CountOp, ech::ScalarOp,
                ech::ReadOp, dist::MaskOp, dist::SliceOp>([&](auto typed) { return scalarOf(typed); })
          .Default([&](Operation *) { return l.refuse(op, "cannot be in a loop nest"); });
  if (failed(scalar))
    return failure();
  scalars[op->getResult(0)] = *scalar;
  return success();
}

Value NestBuilder::scalarOf(ech::MapOp op) {
  // What this nest has just made is not rounded on its way to the next operation, but where it is stored. The update
  // says what it rounds: what a packing loses is known by it.
  if (op.getFunction() == ech::Function::Cast && ech::isNarrow(elementOf(op.getOperands()[0])) && !isOfUpdate(op))
    if (auto made = scalars.lookup(op.getOperands()[0]).getDefiningOp<rt::ComputeOp>();
        made && made.getFunction() == "cast" && made.getOperands()[0].getType() == elementOf(op.getResult())) {
      rounded[op.getResult()] = made;
      return made.getOperands()[0];
    }
  auto values = llvm::map_to_vector(op.getOperands(), [&](Value v) { return scalars.lookup(v); });
  return compute(ech::stringifyFunction(op.getFunction()), values, elementOf(op.getResult()), op.getLoc());
}

FailureOr<Value> NestBuilder::scalarOf(ech::PositionOp op) {
  Value index = l.positionOf(op.getAxis());
  if (!index)
    return l.refuse(op, "is in no repeat over " + op.getAxis());
  return number(index, elementOf(op.getResult()));
}

/// How many elements: of the batch, in an evaluation, as many as the run has samples. A local count has its own sizes.
Value NestBuilder::scalarOf(ech::CountOp op) {
  double product = 1;
  StringRef batchAxis = ech::batchAxisOf(l.module);
  auto batch = l.module->getAttrOfType<IntegerAttr>(ech::kBatch);
  bool samples = false;
  for (auto [name, size] : llvm::zip(op.getOver(), op.getSizes())) {
    bool isBatch = cast<StringAttr>(name).getValue() == batchAxis;
    if (isBatch && l.evaluates)
      samples = true;
    else
      product *= isBatch && batch && !op->hasAttr(ech::kLocal) ? batch.getInt() : size;
  }
  Type element = elementOf(op.getResult());
  Value others = literal(product, element, op.getLoc());
  if (!samples)
    return others;
  Value run = number(l.number(rt::Number::SampleCount, l.b.getF64Type(), op.getLoc()), element);
  return product == 1 ? run : compute("mul", {run, others}, element, op.getLoc());
}

FailureOr<Value> NestBuilder::scalarOf(ech::ScalarOp op) {
  Type f64 = l.b.getF64Type(), element = elementOf(op.getResult());
  StringRef name = op.getName();
  if (name == "learning_rate") {
    const int64_t line = op.getLine();
    const bool isLast = static_cast<int64_t>(llvm::range_size(l.module.getOps<run::OptimizeOp>())) <= line + 1;
    return number(l.number(rt::Number::LearningRate, f64, op.getLoc(), isLast ? std::nullopt : std::optional(line)),
                  element);
  }
  if (name == "bias_correction")
    return number(l.number(rt::Number::BiasCorrection, f64, op.getLoc(), {}, op.getBeta().convertToDouble()), element);
  if (name == "average_decay")
    return number(l.number(rt::Number::AverageDecay, f64, op.getLoc(), {}, op.getBeta().convertToDouble()), element);
  if (name == "loss_scale")
    return number(l.number(rt::Number::LossScale, f64, op.getLoc()), element);
  if (name == "hand_in_weight")
    return number(l.number(rt::Number::HandInWeight, f64, op.getLoc()), element);
  if (name == "is_first_in")
    return number(l.number(rt::Number::IsFirstIn, f64, op.getLoc()), element);
  if (name == "hand_in_worker")
    return number(l.number(rt::Number::HandInWorker, f64, op.getLoc()), element);
  if (name == "step")
    return number(l.number(rt::Number::Step, f64, op.getLoc()), element);
  if (name == "samples")
    return number(l.number(rt::Number::SampleCount, f64, op.getLoc()), element);
  return l.refuse(op, "names a number that no run provides: " + name);
}

/// Whether a sample is one of those that are valid.
FailureOr<Value> NestBuilder::scalarOf(ech::ReadOp op) {
  if (op.getSource() != ech::kValidSamples)
    return l.refuse(op, "cannot be in a loop nest");
  Value result = op.getValue();
  Value place = along(result, l.local(result).getAxes()[0].name.getValue(), op.getLoc());
  Value count = number(l.number(rt::Number::ValidSamples, l.b.getIndexType(), op.getLoc()), l.b.getI32Type());
  return compute("lt", {place, count}, elementOf(result), op.getLoc());
}

Value NestBuilder::scalarOf(dist::MaskOp op) {
  Value whole = op.getValue(), value = scalars.lookup(whole);
  Type element = elementOf(op.getResult());
  const bool flat = !dist::flatCuts(ech::tensor(whole)).empty();
  for (StringRef axis : ech::strings(op.getAxes())) {
    Value place = flat ? alongFlat(whole, axis, op.getLoc()) : along(whole, axis, op.getLoc());
    Value size = literal(ech::tensor(whole).sizeOf(axis), l.b.getI32Type(), op.getLoc());
    Value inside = compute("lt", {place, size}, l.b.getI1Type(), op.getLoc());
    Value fill = literal(op.getFill().convertToDouble(), element, op.getLoc());
    value = compute("select", {inside, value, fill}, element, op.getLoc());
  }
  return value;
}

/// A share of a sum.
Value NestBuilder::scalarOf(dist::SliceOp op) {
  Value value = scalars.lookup(op.getValue());
  Type element = elementOf(op.getResult());
  for (int m : dist::sums(ech::tensor(op.getResult())))
    if (dist::stateOf(op.getValue())[m].hold != dist::Hold::Sum && l.mesh.sizeOf(m) > 1) {
      const std::optional<double> equal = l.equalShare(m);
      Value share = equal ? literal(*equal, element, op.getLoc()) : number(l.isFirst(m, op.getLoc()), element);
      value = compute("mul", {value, share}, element, op.getLoc());
    }
  return value;
}

LogicalResult NestBuilder::output(Value inner, Value outer) {
  auto sum = sums.find(inner);
  for (const Axis &a : l.local(outer).getAxes())
    addAxis(a);
  l.places.insert({outer, inner.getLoc()});
  Destination destination = l.target(outer);
  if (Value narrow = rounded.lookup(inner))
    yields.push_back(compute("cast", narrow, elementOf(inner), inner.getLoc()));
  else
    yields.push_back(sum != sums.end() ? sum->second : scalars.lookup(inner));
  outputs.push_back(destination.buffer);
  modes.push_back(destination.adds ? "add" : sum != sums.end() ? "sum" : "store");
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
