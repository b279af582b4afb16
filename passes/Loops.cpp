#include "passes/Loops.h"
#include "ir/ech/Build.h"
#include "mlir/IR/IRMapping.h"
#include "llvm/ADT/StringSet.h"

using namespace mlir;
using namespace echelon;
using namespace echelon::ech;

StringAttr echelon::freeAxis(StepOp step, StringRef wanted) {
  llvm::StringSet<> taken;
  step.walk([&](Operation *op) {
    for (Value result : op->getResults())
      for (StringRef axis : tensor(result).names())
        taken.insert(axis);
    if (auto repeat = dyn_cast<RepeatOp>(op))
      taken.insert(repeat.getAxis());
  });
  std::string name = wanted.str();
  for (int i = 2; taken.contains(name); ++i)
    name = (wanted + "_" + Twine(i)).str();
  return StringAttr::get(step.getContext(), name);
}

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

/// The values that the used results of a loop come from, one by one through the loops within it: what two loops only
/// hand to each other is none of them.
class Live {
public:
  explicit Live(RepeatOp root) : root(root) {
    for (Value result : root.getResults())
      if (!result.use_empty())
        open.push_back(result);
    while (!open.empty())
      if (Value value = open.pop_back_val(); values.insert(value).second)
        follow(value);
  }
  bool has(Value value) const { return values.contains(value); }

private:
  void follow(Value value) {
    if (auto argument = dyn_cast<BlockArgument>(value)) {
      if (!root.getBody().isAncestor(argument.getParentRegion()))
        return;
      auto loop = cast<RepeatOp>(argument.getOwner()->getParentOp());
      unsigned i = argument.getArgNumber();
      open.push_back(loop->getOperand(i)); // carried, then slices, as the arguments are
      if (i < loop.getCarried().size())
        open.push_back(loop.yield().getCarried()[i]);
      return;
    }
    Operation *op = value.getDefiningOp();
    auto loop = dyn_cast<RepeatOp>(op);
    if (op != root && !root.getBody().isAncestor(op->getParentRegion()))
      return;
    if (!loop)
      return llvm::append_range(open, op->getOperands());
    unsigned i = cast<OpResult>(value).getResultNumber();
    open.push_back(i < loop.getFinals().size() ? Value(loop.block()->getArgument(i)) : loop.yield()->getOperand(i));
  }

  RepeatOp root;
  llvm::DenseSet<Value> values;
  SmallVector<Value> open;
};

} // namespace

/// Without what is not live.
static RepeatOp strip(RepeatOp op, const Live &live, RewriterBase &rewriter) {
  auto drop = [&](ValueRange values) {
    for (Value value : values)
      if (!live.has(value))
        value.dropAllUses();
  };
  LoopParts parts(op);
  for (auto [i, argument] : llvm::enumerate(op.carriedArguments()))
    parts.carried[i] = live.has(argument);
  for (auto [i, argument] : llvm::enumerate(op.sliceArguments()))
    parts.slices[i] = live.has(argument);
  for (auto [i, stack] : llvm::enumerate(op.getStacks()))
    parts.stacks[i] = live.has(stack);
  for (auto [i, sum] : llvm::enumerate(op.getSums()))
    parts.sums[i] = live.has(sum);
  drop(op.block()->getArguments());
  for (Operation &inner : llvm::make_early_inc_range(llvm::reverse(*op.block()))) {
    if (isa<YieldOp>(inner))
      continue;
    drop(inner.getResults());
    if (llvm::none_of(inner.getResults(), [&](Value v) { return live.has(v); }))
      rewriter.eraseOp(&inner);
    else if (auto loop = dyn_cast<RepeatOp>(inner))
      strip(loop, live, rewriter);
  }
  return rebuildLoop(op, parts, rewriter);
}

RepeatOp echelon::pruneLoop(RepeatOp op, RewriterBase &rewriter) {
  op->walk([&](RepeatOp loop) { // what is outside as it is
    for (auto [stack, value] : llvm::zip(loop.getStacks(), loop.yield().getStacked()))
      if (auto argument = dyn_cast<BlockArgument>(value);
          argument && llvm::is_contained(loop.sliceArguments(), argument))
        if (Value whole = loop->getOperand(argument.getArgNumber()); whole.getType() == stack.getType())
          rewriter.replaceAllUsesWith(stack, whole);
  });
  if (op->use_empty()) {
    rewriter.eraseOp(op);
    return {};
  }
  return strip(op, Live(op), rewriter);
}

std::pair<RepeatOp, RepeatOp> echelon::cutLoop(RepeatOp op, llvm::function_ref<bool(Value)> moves,
                                               ArrayRef<Value> stacked, RewriterBase &rewriter) {
  YieldOp yield = op.yield();
  auto flags = [&](ValueRange values) { return llvm::map_to_vector(values, moves); };
  const SmallVector<bool> finals = flags(op.carriedArguments()), stacks = flags(yield.getStacked()),
                          sums = flags(yield.getSummed());
  OpBuilder::InsertionGuard guard(rewriter);
  rewriter.setInsertionPointAfter(op);
  IRMapping mapping;
  auto behind = cast<RepeatOp>(rewriter.clone(*op, mapping));
  op = rebuildLoop(op, LoopParts(op), rewriter, {}, stacked);
  const SmallVector<Value> wholes(op.getStacks().take_back(stacked.size()));
  behind = rebuildLoop(behind, LoopParts(behind), rewriter, wholes);
  for (auto [value, slice] : llvm::zip(stacked, behind.sliceArguments().take_back(stacked.size())))
    rewriter.replaceAllUsesWith(mapping.lookup(value), slice);
  auto hand = [&](ValueRange from, ValueRange to, ArrayRef<bool> which) {
    for (auto [i, goes] : llvm::enumerate(which))
      if (goes)
        rewriter.replaceAllUsesWith(from[i], to[i]);
  };
  hand(op.getFinals(), behind.getFinals(), finals);
  hand(op.getStacks(), behind.getStacks(), stacks);
  hand(op.getSums(), behind.getSums(), sums);
  op = pruneLoop(op, rewriter);
  return {op, pruneLoop(behind, rewriter)};
}
