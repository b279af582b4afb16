#include "passes/pipeline/OnAll.h"
#include "ir/ech/Build.h"
#include "passes/Loops.h"
#include "passes/Phase.h"

using namespace mlir;
using namespace echelon;
using namespace echelon::ech;

namespace {
/// The values of a repeat's body that follow from what it carries.
class Followers {
public:
  explicit Followers(RepeatOp loop) : loop(loop) {
    values.insert_range(loop.carriedArguments());
    for (Operation &op : loop.block()->without_terminator())
      if (reads(op))
        values.insert_range(op.getResults());
  }
  bool has(Value value) const { return values.contains(value); }

  /// What else of the body they read, or is carried on: it is there before.
  llvm::SetVector<Value> read() {
    llvm::SetVector<Value> before;
    auto look = [&](Value value) {
      if (value.getParentBlock() == loop.block() && value.getDefiningOp() && !has(value))
        before.insert(value);
    };
    for (Operation &op : loop.block()->without_terminator())
      if (reads(op))
        op.walk([&](Operation *inner) { llvm::for_each(inner->getOperands(), look); });
    llvm::for_each(loop.yield().getCarried(), look);
    return before;
  }

private:
  bool reads(Operation &op) {
    return op
        .walk([&](Operation *inner) {
          return llvm::any_of(inner->getOperands(), [&](Value v) { return has(v); }) ? WalkResult::interrupt()
                                                                                     : WalkResult::advance();
        })
        .wasInterrupted();
  }

  RepeatOp loop;
  llvm::DenseSet<Value> values;
};

/// The loop over another axis: slices are renamed to it, and what is stacked up back.
void rename(RepeatOp loop, StringAttr axis, IRRewriter &rewriter) {
  Build build(rewriter, loop.getLoc(), tensor(loop.getCarried().front()).getElement());
  const auto count = static_cast<int64_t>(loop.getCount());
  rewriter.setInsertionPoint(loop);
  SmallVector<Value> slices;
  for (Value slice : loop.getSlices())
    slices.push_back(build.relabel(slice, {loop.getAxis()}, {{axis, count}}));
  SmallVector<Type> stacks;
  for (Value value : loop.yield().getStacked())
    stacks.push_back(stackedType(tensor(value), axis, count));
  auto own = RepeatOp::create(rewriter, loop.getLoc(), axis, count, loop.getCarried(), slices,
                              loop.getFinals().getTypes(), stacks, loop.getSums().getTypes());
  own.setReverse(loop.getReverse());
  own->setDiscardableAttrs(loop->getDiscardableAttrDictionary());
  own.getBody().takeBody(loop.getBody());
  own.walk([&](PositionOp position) {
    if (position.getAxis() == loop.getAxis())
      position.setAxisAttr(axis);
  });
  SmallVector<Value> results(own.getFinals());
  for (Value stack : own.getStacks())
    results.push_back(build.relabel(stack, {axis}, {{loop.getAxis(), count}}));
  llvm::append_range(results, own.getSums());
  rewriter.replaceOp(loop, results);
}
} // namespace

void echelon::pipeline::carryOnAll(RepeatOp loop) {
  Followers followers(loop);
  auto step = loop->getParentOfType<StepOp>();
  InPhaseOf phase(loop);
  IRRewriter rewriter(loop->getContext(), &phase);
  RepeatOp behind =
      cutLoop(loop, [&](Value v) { return followers.has(v); }, followers.read().getArrayRef(), rewriter).second;
  if (behind)
    rename(behind, freeAxis(step, behind.getAxis()), rewriter);
}
