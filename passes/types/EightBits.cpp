#include "passes/types/EightBits.h"
#include "ir/ech/Build.h"

using namespace mlir;
using namespace echelon;
using namespace echelon::ech;
using namespace echelon::types;

namespace {

/// Whether a value of the backward pass is a gradient: what loops carry there is, what they take slices of may not be.
bool isGradient(Value v) {
  while (auto argument = dyn_cast<BlockArgument>(v)) {
    auto loop = cast<RepeatOp>(argument.getOwner()->getParentOp());
    const unsigned carried = loop.getCarried().size();
    if (argument.getArgNumber() < carried)
      return isOfBackward(loop);
    v = loop.getSlices()[argument.getArgNumber() - carried];
  }
  return isOfBackward(v.getDefiningOp());
}

} // namespace

EightBits::EightBits(StepOp step) {
  const LeadingToProducts leading(step);
  step.walk([&](DotOp dot) {
    if (staysF32(dot))
      return;
    const bool isForward = phaseOf(dot) == "forward";
    Dot each{dot, {!isForward && isGradient(dot.getLhs()), !isForward && isGradient(dot.getRhs())}};
    const bool isLast = isForward ? !leading.contains(dot.getResult())
                                  : !(each.isGradient[0] && followsProduct(dot.getLhs())) &&
                                        !(each.isGradient[1] && followsProduct(dot.getRhs()));
    if (!isLast)
      dots.push_back(each);
  });
}

/// Whether a gradient came through a product of the backward pass, or through a loop.
bool EightBits::followsProduct(Value v) {
  auto [known, isNew] = following.try_emplace(v, false);
  if (!isNew)
    return known->second;
  Operation *op = v.getDefiningOp();
  const bool follows =
      !op || (isOfBackward(op) && (isProduct(op) || isa<RepeatOp>(op) ||
                                   llvm::any_of(op->getOperands(), [&](Value x) { return followsProduct(x); })));
  return following[v] = follows;
}

void EightBits::round() {
  llvm::DenseMap<std::tuple<Value, Block *, StringRef, int>, Value> copies;
  for (Dot &dot : dots)
    for (unsigned i = 0; i < 2; ++i) {
      OpOperand &operand = dot.op->getOpOperand(i);
      Value v = operand.get();
      Value &copy = copies[{v, dot.op->getBlock(), phaseOf(dot.op), dot.isGradient[i]}];
      if (!copy) {
        InPhaseOf phase(dot.op);
        OpBuilder builder(dot.op, &phase);
        Build b(builder, v.getLoc(), builder.getF32Type());
        // A parameter is rounded once, from f32.
        auto map = v.getDefiningOp<MapOp>();
        Value x = map && map.getFunction() == Function::Cast && readOf(map.getOperands()[0]) ? map.getOperands()[0] : v;
        x = b.cast(x, b.real);
        SmallVector<StringRef> all;
        for (const Axis &axis : tensor(x).getAxes())
          all.push_back(axis.name);
        Value largest = b.reduce(Reduction::Max, b.map(Function::Abs, {x}), all);
        const double most = dot.isGradient[i] ? 57344 : 448; // of E5M2, of E4M3
        Value scale = b.map(Function::PowerOfTwo, {b.div(b.constant(most), largest)});
        Value rounded = b.map(dot.isGradient[i] ? Function::RoundE5M2 : Function::RoundE4M3, {b.mul(x, scale)});
        copy = b.cast(b.div(rounded, scale), tensor(v).getElement());
      }
      operand.set(copy);
    }
}
