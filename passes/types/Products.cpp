#include "passes/types/Products.h"

using namespace mlir;
using namespace echelon;
using namespace echelon::ech;

/// Values in an order in which all that follows from one comes behind it: what a loop gives comes behind what is
/// inside.
static void inOrder(Block &block, SmallVector<Value> &values) {
  llvm::append_range(values, block.getArguments());
  for (Operation &op : block) {
    for (Region &region : op.getRegions())
      inOrder(region.front(), values);
    llvm::append_range(values, op.getResults());
  }
}

types::LeadingToProducts::LeadingToProducts(StepOp step) {
  SmallVector<Value> all;
  inOrder(step.getBody().front(), all);
  for (Value v : llvm::reverse(all))
    if (llvm::any_of(v.getUses(), [&](OpOperand &use) { return leads(use); }))
      values.insert(v);
}

bool types::LeadingToProducts::leads(OpOperand &use) const {
  Operation *user = use.getOwner();
  if (phaseOf(user) != "forward")
    return false;
  auto loop = isa<YieldOp>(user) ? cast<RepeatOp>(user->getParentOp()) : RepeatOp();
  const unsigned at = use.getOperandNumber();
  if (loop && loop.getTime() && at >= loop.getCarried().size())
    return contains(loop->getResult(at));
  return isFactor(use) || isa<YieldOp, RepeatOp>(user) ||
         llvm::any_of(user->getResults(), [&](Value result) { return contains(result); });
}

ReadOp types::readOf(Value v) {
  while (true) {
    if (auto argument = dyn_cast<BlockArgument>(v)) {
      auto loop = dyn_cast<RepeatOp>(argument.getOwner()->getParentOp());
      const unsigned carried = loop ? loop.getCarried().size() : 0;
      if (!loop || argument.getArgNumber() < carried)
        return {};
      v = loop.getSlices()[argument.getArgNumber() - carried];
      continue;
    }
    Operation *op = v.getDefiningOp();
    if (auto read = dyn_cast<ReadOp>(op))
      return read;
    auto map = dyn_cast<MapOp>(op);
    if (!(map && map.getFunction() == Function::Cast) && !(moves(op) && op->getNumOperands() == 1))
      return {};
    v = op->getOperand(0);
  }
}
