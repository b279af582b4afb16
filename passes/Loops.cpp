#include "passes/Loops.h"
#include "ir/ech/Build.h"

using namespace mlir;
using namespace echelon;
using namespace echelon::ech;

static SmallVector<Value> kept(ValueRange values, ArrayRef<bool> keep) {
  SmallVector<Value> result;
  for (auto [value, stays] : llvm::zip(values, keep))
    if (stays)
      result.push_back(value);
  return result;
}

RepeatOp echelon::rebuildLoop(RepeatOp op, const LoopParts &parts, RewriterBase &rewriter, ArrayRef<Value> slices,
                              ArrayRef<Value> stacked) {
  OpBuilder::InsertionGuard guard(rewriter);
  rewriter.setInsertionPoint(op);
  SmallVector<Value> carried = kept(op.getCarried(), parts.carried), taken = kept(op.getSlices(), parts.slices);
  SmallVector<Value> finals = kept(op.getFinals(), parts.carried), stacks = kept(op.getStacks(), parts.stacks),
                     sums = kept(op.getSums(), parts.sums);
  SmallVector<Type> stackTypes(ValueRange(stacks).getTypes());
  for (Value value : stacked)
    stackTypes.push_back(stackedType(tensor(value), op.getAxis(), op.getCount()));
  llvm::append_range(taken, slices);
  auto loop = RepeatOp::create(rewriter, op.getLoc(), op.getAxis(), op.getCount(), carried, taken,
                               ValueRange(finals).getTypes(), stackTypes, ValueRange(sums).getTypes());
  loop.setReverse(op.getReverse());
  loop.setAlong(op.getAlong());
  loop.setTime(op.getTime());
  loop->setDiscardableAttrs(op->getDiscardableAttrDictionary());
  YieldOp yield = op.yield();
  SmallVector<Value> next = kept(yield.getCarried(), parts.carried),
                     stackedNext = kept(yield.getStacked(), parts.stacks), summed = kept(yield.getSummed(), parts.sums);
  llvm::append_range(stackedNext, stacked);
  rewriter.modifyOpInPlace(yield, [&] {
    yield.getCarriedMutable().assign(next);
    yield.getStackedMutable().assign(stackedNext);
    yield.getSummedMutable().assign(summed);
  });
  rewriter.inlineRegionBefore(op.getBody(), loop.getBody(), loop.getBody().end());
  llvm::BitVector gone;
  for (bool stays : llvm::concat<const bool>(parts.carried, parts.slices))
    gone.push_back(!stays);
  loop.block()->eraseArguments(gone);
  for (Value whole : slices)
    loop.block()->addArgument(without(tensor(whole), op.getAxis()), op.getLoc());
  for (auto [old, now] : llvm::zip(finals, loop.getFinals()))
    rewriter.replaceAllUsesWith(old, now);
  for (auto [old, now] : llvm::zip(stacks, loop.getStacks()))
    rewriter.replaceAllUsesWith(old, now);
  for (auto [old, now] : llvm::zip(sums, loop.getSums()))
    rewriter.replaceAllUsesWith(old, now);
  rewriter.eraseOp(op);
  return loop;
}

namespace {

/// What the used results of a loop come from.
struct Needed {
  RepeatOp loop;
  LoopParts parts;
  llvm::DenseSet<Operation *> ops;

  explicit Needed(RepeatOp loop) : loop(loop), parts(loop) {
    for (auto *list : {&parts.carried, &parts.slices, &parts.stacks, &parts.sums})
      std::fill(list->begin(), list->end(), false);
    YieldOp yield = loop.yield();
    for (auto [i, final] : llvm::enumerate(loop.getFinals()))
      if (!final.use_empty())
        needArgument(i);
    for (auto [i, stack] : llvm::enumerate(loop.getStacks()))
      if ((parts.stacks[i] = !stack.use_empty()))
        open.push_back(yield.getStacked()[i]);
    for (auto [i, sum] : llvm::enumerate(loop.getSums()))
      if ((parts.sums[i] = !sum.use_empty()))
        open.push_back(yield.getSummed()[i]);
    while (!open.empty())
      need(open.pop_back_val());
  }

private:
  void need(Value value) {
    if (auto argument = dyn_cast<BlockArgument>(value); argument && argument.getOwner() == loop.block())
      return needArgument(argument.getArgNumber());
    Operation *op = value.getDefiningOp();
    if (!op || op->getBlock() != loop.block() || !ops.insert(op).second)
      return;
    op->walk([&](Operation *inner) { llvm::append_range(open, inner->getOperands()); });
  }
  void needArgument(unsigned i) {
    unsigned n = parts.carried.size();
    if (i >= n) {
      parts.slices[i - n] = true;
    } else if (!parts.carried[i]) {
      parts.carried[i] = true;
      open.push_back(loop.yield().getCarried()[i]);
    }
  }
  SmallVector<Value> open;
};

} // namespace

/// Operations and their operands: what pruning makes fewer.
static size_t weight(RepeatOp op) {
  size_t count = 0;
  op->walk([&](Operation *inner) { count += 1 + inner->getNumOperands(); });
  return count;
}

RepeatOp echelon::pruneLoop(RepeatOp op, RewriterBase &rewriter) {
  for (size_t before = SIZE_MAX; weight(op) < before;) {
    before = weight(op);
    for (auto [stack, value] : llvm::zip(op.getStacks(), op.yield().getStacked())) // what stands outside as it is
      if (auto argument = dyn_cast<BlockArgument>(value); argument && llvm::is_contained(op.sliceArguments(), argument))
        if (Value whole = op.getSlices()[argument.getArgNumber() - op.getCarried().size()];
            whole.getType() == stack.getType())
          rewriter.replaceAllUsesWith(stack, whole);
    if (op->use_empty()) {
      rewriter.eraseOp(op);
      return {};
    }
    Needed needed(op);
    for (Operation &inner : llvm::make_early_inc_range(llvm::reverse(*op.block())))
      if (!isa<YieldOp>(inner) && !needed.ops.contains(&inner)) {
        inner.dropAllUses();
        rewriter.eraseOp(&inner);
      }
    op = rebuildLoop(op, needed.parts, rewriter);
    for (auto inner : llvm::to_vector(op.block()->getOps<RepeatOp>()))
      pruneLoop(inner, rewriter);
  }
  return op;
}
