// What a loop nest checks and touches.
#include "ir/rt/Rt.h"

using namespace mlir;
using namespace echelon::rt;

LogicalResult FusedOp::verifyRegions() {
  if (getAxes().size() != getSizes().size())
    return emitOpError() << "has one size an axis";
  Block &body = getBody().front();
  if (body.getNumArguments() != getInputs().size() + getNumbers().size())
    return emitOpError() << "has one block argument for each buffer it reads and each number";
  auto yield = body.empty() ? YieldOp() : dyn_cast<YieldOp>(body.back());
  if (!yield || yield.getValues().size() != getOutputs().size() || getModes().size() != getOutputs().size())
    return emitOpError() << "yields one value, and has one mode, for each output";
  for (Value v : llvm::concat<Value>(llvm::to_vector(getInputs()), llvm::to_vector(getOutputs())))
    for (const ech::Axis &a : buffer(v).getAxes()) {
      auto at = llvm::find_if(llvm::enumerate(getAxes()), [&](auto e) { return e.value() == a.name; });
      if (a.size != 1 && (at == llvm::enumerate(getAxes()).end() || getSizes()[(*at).index()] != a.size))
        return emitOpError() << "walks the axis " << a.name << " of its buffers at its size";
    }
  for (auto along : body.getOps<AlongOp>())
    if (!ech::has(getAxes(), along.getAxis()))
      return along.emitOpError() << "asks for the position along " << along.getAxis()
                                 << ", which the nest does not walk";
  for (Attribute mode : getModes())
    if (StringRef m = cast<StringAttr>(mode).getValue(); m != "store" && m != "sum" && m != "add")
      return emitOpError() << "stores, sums or adds, not '" << m << "'";
  return success();
}

SmallVector<Value> FusedOp::reads() {
  SmallVector<Value> values(getInputs());
  for (auto [mode, out] : llvm::zip(getModes(), getOutputs()))
    if (cast<StringAttr>(mode).getValue() == "add")
      values.push_back(out);
  return values;
}
SmallVector<Value> FusedOp::writes() { return SmallVector<Value>(getOutputs()); }

// Elementwise outputs with the strides of an input are written where that input was just read.
bool FusedOp::mayShare(Value written, Value read) {
  if (buffer(written) != buffer(read))
    return false;
  for (auto [mode, out] : llvm::zip(getModes(), getOutputs()))
    if (out == written && cast<StringAttr>(mode).getValue() != "store")
      return false;
  int64_t space = 1;
  for (int64_t size : getSizes())
    space *= size;
  return buffer(written).count() == space; // each element is visited once
}

namespace {
LogicalResult checkPlace(Operation *op, size_t indices, size_t strides) {
  return indices == strides ? success() : op->emitOpError() << "has one stride an index";
}
} // namespace
LogicalResult LoadOp::verify() { return checkPlace(*this, getIndices().size(), getStrides().size()); }
LogicalResult StoreOp::verify() { return checkPlace(*this, getIndices().size(), getStrides().size()); }

LogicalResult SumOp::verify() { return checkPlace(*this, getIndices().size(), getStrides().size()); }

LogicalResult KernelOp::verifyRegions() {
  if (getSizes().size() != getSummed().size())
    return emitOpError() << "says of each loop whether it is summed over";
  Block &body = getBody().front();
  const size_t loops = getSizes().size();
  if (body.getNumArguments() != loops + getNumOperands())
    return emitOpError() << "has one block argument for each loop, each buffer and each number";
  for (BlockArgument argument : body.getArguments())
    if (const size_t i = argument.getArgNumber();
        i < loops ? !argument.getType().isIndex() : argument.getType() != getOperand(i - loops).getType())
      return emitOpError() << "has positions, then what it is given, as block arguments";
  if (!sums() && !body.getOps<SumOp>().empty())
    return emitOpError() << "sums over no loop";
  return success();
}

LogicalResult LoopOp::verify() {
  if (bool(getStart()) != bool(getEnd()))
    return emitOpError() << "has a start and an end, or neither";
  if (getEnd() && !getEnd().getDefiningOp<BlockEndOp>())
    return emitOpError() << "ends at an rt.block_end";
  return success();
}
LogicalResult LoopOp::verifyRegions() {
  Block &body = getBody().front();
  if (body.getNumArguments() != 1 || !body.getArgument(0).getType().isIndex())
    return emitOpError() << "has one block argument, its position";
  return success();
}

void LoopOp::build(OpBuilder &b, OperationState &state, SizeAttr size, Value start, Value end, int64_t step,
                   bool innermost, ValueRange sums) {
  SmallVector<int32_t> segments{start ? 1 : 0, end ? 1 : 0, static_cast<int32_t>(sums.size())};
  Properties &p = state.getOrAddProperties<Properties>();
  p.size = size;
  if (step)
    p.step = b.getI64IntegerAttr(step);
  if (innermost)
    p.innermost = b.getUnitAttr();
  llvm::copy(segments, p.operandSegmentSizes.begin());
  for (Value bound : {start, end})
    if (bound)
      state.addOperands(bound);
  state.addOperands(sums);
  state.addRegion()->emplaceBlock().addArgument(b.getIndexType(), state.location);
}
