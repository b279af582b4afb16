#include "passes/microbatch/Distribute.h"
#include "mlir/IR/IRMapping.h"
#include "mlir/Interfaces/SideEffectInterfaces.h"
#include "passes/Loops.h"

using namespace mlir;
using namespace echelon;
using namespace echelon::ech;

namespace {

/// The loop's own copy, next to it; `mapping` says what in it stands for what.
RepeatOp copy(RepeatOp loop, IRMapping &mapping, IRRewriter &rewriter) {
  return cast<RepeatOp>(rewriter.clone(*loop, mapping));
}

/// The total is stacked up before the loop, which takes it in slices. A result of the loop comes from the copy alone.
LogicalResult cutBefore(RepeatOp loop, Value value, IRRewriter &rewriter) {
  IRMapping mapping;
  rewriter.setInsertionPoint(loop);
  if (value.getDefiningOp() == loop) {
    unsigned number = cast<OpResult>(value).getResultNumber();
    RepeatOp first = copy(loop, mapping, rewriter);
    rewriter.replaceAllUsesWith(value, first.getResult(number));
    pruneLoop(first, rewriter);
    pruneLoop(loop, rewriter);
    return success();
  }
  if (tensor(value).has(loop.getAxis()))
    return failure();
  RepeatOp first = copy(loop, mapping, rewriter);
  first = rebuildLoop(first, LoopParts(first), rewriter, {}, {mapping.lookup(value)});
  loop = rebuildLoop(loop, LoopParts(loop), rewriter, {first.getStacks().back()});
  rewriter.replaceAllUsesWith(value, loop.sliceArguments().back());
  pruneLoop(first, rewriter);
  pruneLoop(loop, rewriter);
  return success();
}

/// What follows from `seed`, a value seen in the loop's body, moves into a loop after it.
class CutAfter {
public:
  CutAfter(RepeatOp loop, Value seed, const Dependences &dependences)
      : loop(loop), seed(seed), dependences(dependences) {}

  LogicalResult run(IRRewriter &rewriter) {
    findMoved();
    if (failed(findStacked()))
      return failure();
    cutLoop(loop, [&](Value v) { return follows(v); }, stacked.getArrayRef(), rewriter);
    return success();
  }

private:
  /// Whether the value is in the loop's body and is no slice: those come in again.
  bool isOwn(Value value) {
    return value.getParentBlock() == loop.block() && !llvm::is_contained(loop.sliceArguments(), value);
  }
  bool isCarried(Value value) { return llvm::is_contained(loop.carriedArguments(), value); }
  /// Whether a carried or yielded value is one that moves. The seed itself may be summed up where it is, if it is a
  /// sum.
  bool follows(Value value) { return moved.contains(value) || (value == seed && !isOwn(seed)); }

  void findMoved() {
    if (isCarried(seed))
      moved.insert(seed);
    for (Operation &op : *loop.block()) // whatever else follows from totals
      for (Value result : op.getResults())
        if (dependences.of(result) == Dependence::AfterTotals)
          moved.insert(result);
    for (size_t before = SIZE_MAX; before != moved.size();) {
      before = moved.size();
      for (Operation &op : loop.block()->without_terminator()) {
        bool reads = false;
        op.walk([&](Operation *inner) {
          reads |= llvm::any_of(inner->getOperands(), [&](Value v) { return v == seed || moved.contains(v); });
        });
        if (reads)
          moved.insert_range(op.getResults());
      }
      for (auto [argument, next] : llvm::zip(loop.carriedArguments(), loop.yield().getCarried()))
        if (follows(next))
          moved.insert(argument);
    }
  }

  /// Sums that what moves reads are stacked up; what belongs to samples cannot be read after.
  LogicalResult findStacked() {
    auto look = [&](Value value) {
      if (dependences.hasBatch(value) || dependences.of(value) == Dependence::PerSample)
        return false;
      if (isOwn(value) && !moved.contains(value) && dependences.of(value) == Dependence::PartialSum) {
        if (tensor(value).has(loop.getAxis()))
          return false;
        stacked.insert(value);
      }
      return true;
    };
    bool fine = true;
    for (Operation &op : loop.block()->without_terminator())
      if (llvm::any_of(op.getResults(), [&](Value v) { return moved.contains(v); }))
        op.walk([&](Operation *inner) {
          fine &= llvm::all_of(inner->getOperands(), look) &&
                  llvm::none_of(inner->getResults(), [&](Value v) { return dependences.hasBatch(v); });
        });
    for (auto [argument, next] : llvm::zip(loop.carriedArguments(), loop.yield().getCarried()))
      if (moved.contains(argument))
        fine &= look(next);
    return success(fine);
  }

  RepeatOp loop;
  Value seed;
  const Dependences &dependences;
  llvm::DenseSet<Value> moved;
  llvm::SetVector<Value> stacked;
};

} // namespace

LogicalResult echelon::distributeLoops(StepOp step, const Time &time) {
  IRRewriter rewriter(step.getContext());
  Block &block = step.getBody().front();
  int64_t cuts = 0; // each settles one operation at least
  step.walk([&](Operation *) { ++cuts; });
  while (true) {
    for (Operation &op : llvm::make_early_inc_range(llvm::reverse(block))) // what nobody reads needs no samples
      if (isOpTriviallyDead(&op))
        op.erase();
    if (block.empty())
      return success();
    Dependences dependences(step, time);
    do { // as if early totals were there
      dependences.settled.insert_range(dependences.early);
      if (failed(dependences.decide()))
        return failure();
    } while (!(dependences.cut && dependences.cut->before) && !dependences.early.empty());
    if (!dependences.cut)
      return success();
    auto [loop, value, before, op] = *dependences.cut;
    if (--cuts < 0 ||
        failed(before ? cutBefore(loop, value, rewriter) : CutAfter(loop, value, dependences).run(rewriter)))
      return dependences.refuse(op);
  }
}
