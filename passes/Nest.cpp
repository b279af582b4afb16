#include "passes/Nest.h"

using namespace mlir;
using namespace echelon;
using ech::Axis;

std::string echelon::bufferName(Value v) {
  Operation *made = v.getDefiningOp();
  if (auto member = made ? made->getAttrOfType<ArrayAttr>(rt::kMember) : ArrayAttr())
    return identifier(cast<StringAttr>(member[1]).getValue());
  if (auto view = dyn_cast_or_null<rt::ViewOp>(made); view && view.getOffset() == 0 && view.getIndices().empty())
    return bufferName(view.getBase());
  return nameOf(v);
}

void Nest::findLoops() {
  SmallVector<Value> buffers(op.getInputs());
  llvm::append_range(buffers, op.getOutputs());
  strides.resize(buffers.size());
  llvm::SmallDenseSet<StringRef> indexed;
  for (auto along : body.getOps<rt::AlongOp>())
    indexed.insert(along.getAxis());
  bool lastIndexed = false;
  for (auto [axis, size] : llvm::zip(op.getAxes(), op.getSizes())) {
    StringRef name = cast<StringAttr>(axis).getValue();
    bool isIndexed = indexed.contains(name);
    if (size == 1) {
      if (isIndexed)
        loopOf[name] = -1;
      continue;
    }
    Axis walked{cast<StringAttr>(axis), size};
    SmallVector<int64_t> here = llvm::map_to_vector(buffers, [&](Value v) { return rt::buffer(v).strideOf(name); });
    bool joins = !loops.empty() && !isIndexed && !lastIndexed;
    for (size_t i = 0; joins && i < buffers.size(); ++i)
      joins = strides[i].back() == here[i] * size;
    if (joins) {
      loops.back().size *= size;
      loops.back().name = "";
      loops.back().axes.push_back(walked);
      for (size_t i = 0; i < buffers.size(); ++i)
        strides[i].back() = here[i];
    } else {
      loops.push_back({size == rt::kAnyLength ? "" : name.str(), size, {walked}});
      for (size_t i = 0; i < buffers.size(); ++i)
        strides[i].push_back(here[i]);
    }
    if (isIndexed)
      loopOf[name] = loops.size() - 1;
    lastIndexed = isIndexed;
  }
  for (Loop &loop : loops)
    loop.name = names.loopName(loop.name);
  for (size_t o = 0; o < op.getOutputs().size(); ++o)
    depth.push_back(levelOf(stridesOut(o)));
}

int Nest::levelOf(ArrayRef<int64_t> s) {
  for (size_t i = s.size(); i-- > 0;)
    if (s[i] != 0)
      return i + 1;
  return 0;
}

void Nest::findLevels() {
  for (size_t i = 0; i < op.getInputs().size(); ++i)
    levels[body.getArgument(i)] = levelOf(strides[i]);
  for (size_t i = 0; i < op.getNumbers().size(); ++i)
    levels[body.getArgument(op.getInputs().size() + i)] = 0;
  for (Operation &inner : body.without_terminator()) {
    int at = 0;
    if (auto along = dyn_cast<rt::AlongOp>(inner))
      at = loopOf.lookup(along.getAxis()) + 1;
    else
      for (Value v : inner.getOperands())
        if (!isa<IndexType>(v.getType()))
          at = std::max(at, levels.lookup(v));
    levels[inner.getResult(0)] = at;
  }
}

Nest::Place Nest::placeOf(ArrayRef<int64_t> all) {
  Place place;
  for (auto [position, stride] : llvm::zip(positions, all))
    if (stride != 0 && position) { // in a loop that is not open all positions have the same: the first is taken
      place.indices.push_back(position);
      place.strides.push_back(stride);
    }
  return place;
}

Value Nest::load(size_t input) {
  const Place place = placeOf(strides[input]);
  return rt::LoadOp::create(b, loc, body.getArgument(input).getType(), in(input), place.indices, place.strides);
}

void Nest::store(size_t output, Value value, bool adds) {
  const Place place = placeOf(stridesOut(output));
  rt::StoreOp::create(b, loc, value, out(output), place.indices, place.strides, adds);
}

/// What the body computes, here: the variable that has it, or an expression.
Value Nest::scalar(Value inner) {
  if (Value known = declared.lookup(inner))
    return known;
  if (auto argument = dyn_cast<BlockArgument>(inner)) {
    const size_t i = argument.getArgNumber();
    if (i < op.getInputs().size())
      return load(i);
    Value number = op.getNumbers()[i - op.getInputs().size()];
    if (number.getType() == inner.getType())
      return number;
    return rt::ComputeOp::create(b, loc, inner.getType(), "cast", ValueRange{number});
  }
  Operation *made = inner.getDefiningOp();
  if (auto literal = dyn_cast<rt::LiteralOp>(made))
    return rt::LiteralOp::create(b, loc, inner.getType(), literal.getValueAttr());
  if (auto along = dyn_cast<rt::AlongOp>(made)) {
    const int at = loopOf.lookup(along.getAxis());
    return rt::PositionOp::create(b, loc, inner.getType(), at < 0 ? Value() : positions[at], along.getOffset());
  }
  auto compute = cast<rt::ComputeOp>(made);
  auto operands = llvm::map_to_vector(compute.getOperands(), [&](Value v) { return scalar(v); });
  return rt::ComputeOp::create(b, loc, inner.getType(), compute.getFunction(), operands);
}

/// How many elements and numbers the expression of a value has.
int64_t Nest::leavesOf(Value inner) {
  auto compute = declared.contains(inner) ? rt::ComputeOp() : inner.getDefiningOp<rt::ComputeOp>();
  if (!compute)
    return 1;
  int64_t all = 0;
  for (Value operand : compute.getOperands())
    all += leavesOf(operand);
  return all;
}

Value Nest::declare(Value made, const std::string &wanted) {
  setName(made.getDefiningOp(), names.local(wanted));
  return made;
}

/// The name that the spec gives a value, else that of the buffer it is stored to; "d_y_element" beside a buffer d_y.
std::string Nest::nameFor(Value value) {
  std::string name = rt::nameOf(value.getLoc()).str();
  for (OpOperand &use : value.getUses())
    if (name.empty() && isa<rt::YieldOp>(use.getOwner()) && !isSum(use.getOperandNumber()))
      name = bufferName(out(use.getOperandNumber()));
  auto isBuffers = [&](Value buffer) { return !isVariable(buffer) && nameOf(buffer) == name; };
  return name.empty()                                                                          ? "value"
         : llvm::any_of(op.getInputs(), isBuffers) || llvm::any_of(op.getOutputs(), isBuffers) ? name + "_element"
                                                                                               : name;
}
