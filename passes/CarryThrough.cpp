// What the iterations of a pipeline's stages add up, and the same pass then needs, goes from stage to stage.
//   1. In a pass of the model, a sum over the iterations of stages that is only added up further, to the pass's end, as
//      a parameter's gradient is, stays one: stages add theirs up once a step.
//   2. Any other, as the derivative of what the encoder has made and every iteration of the decoder reads, becomes a
//      carried value, to which each iteration adds its share. Where the sum is added to what was there before the loop,
//      that is its first value.
#include "ir/dist/State.h"
#include "passes/Passes.h"
#include "passes/Phase.h"
#include "passes/pipeline/OnAll.h"

namespace echelon {
#define GEN_PASS_DEF_CARRYTHROUGH
#include "passes/Passes.h.inc"
} // namespace echelon
using namespace mlir;
using namespace echelon;
using namespace echelon::ech;

namespace {

/// Whether nothing else becomes of a value, up to the end of its block, than that it is added to others.
bool isOnlyAddedUp(Value value) {
  return llvm::all_of(value.getUses(), [](OpOperand &use) {
    Operation *user = use.getOwner();
    if (isa<YieldOp>(user))
      return true;
    auto rule = dyn_cast<AxisRule>(user);
    const bool isLinear = rule && rule.pendingRule() != PendingRule::Resolve && user->getNumResults() == 1;
    return isLinear && !isa<RepeatOp>(user) && isOnlyAddedUp(user->getResult(0));
  });
}

/// What a sum begins with, where it is added to what is there before the loop; that addition.
std::pair<Value, MapOp> startOf(Value sum, RepeatOp loop) {
  auto add = sum.hasOneUse() ? dyn_cast<MapOp>(*sum.getUsers().begin()) : MapOp();
  if (!add || add.getFunction() != Function::Add || add->getBlock() != loop->getBlock())
    return {};
  Value other = add.getOperands()[add.getOperands()[0] == sum];
  Operation *def = other.getDefiningOp();
  const bool isBefore = def && def->getBlock() == loop->getBlock() && def->isBeforeInBlock(loop);
  return isBefore && other.getType() == sum.getType() ? std::pair(other, add) : std::pair(Value(), MapOp());
}

/// The loop with the sums at these places as carried values.
void carry(RepeatOp loop, ArrayRef<unsigned> places) {
  OpBuilder builder(loop);
  InPhaseOf phase(loop);
  builder.setListener(&phase);
  Build build(builder, loop.getLoc(), tensor(loop.getSums()[places.front()]).getElement());
  YieldOp yield = loop.yield();
  SmallVector<Value> carried(loop.getCarried()), next(yield.getCarried()), summed, replaced, sums;
  for (unsigned i = 0; i < loop.getSums().size(); ++i) {
    Value sum = loop.getSums()[i], share = yield.getSummed()[i];
    if (!llvm::is_contained(places, i)) {
      summed.push_back(share);
      sums.push_back(sum);
      continue;
    }
    auto [start, add] = startOf(sum, loop);
    if (add) { // the addition is that of the first iteration
      add.getResult().replaceAllUsesWith(sum);
      add.erase();
    }
    build.loc = sum.getLoc();
    carried.push_back(start ? start : build.zeros(tensor(sum)));
    Value sofar = loop.block()->insertArgument(unsigned(carried.size() - 1), share.getType(), share.getLoc());
    OpBuilder inside(yield);
    inside.setListener(&phase);
    next.push_back(MapOp::create(inside, share.getLoc(), share.getType(), Function::Add, ValueRange{sofar, share}));
    replaced.push_back(sum);
  }
  yield.getCarriedMutable().assign(next);
  yield.getSummedMutable().assign(summed);
  auto wider =
      RepeatOp::create(builder, loop.getLoc(), loop.getAxis(), loop.getCount(), carried, loop.getSlices(),
                       ValueRange(carried).getTypes(), loop.getStacks().getTypes(), ValueRange(sums).getTypes());
  wider.setReverse(loop.getReverse());
  wider->setDiscardableAttrs(loop->getDiscardableAttrDictionary());
  wider.getBody().takeBody(loop.getBody());
  SmallVector<Value> before(loop.getFinals());
  llvm::append_range(before, replaced);
  for (auto [old, now] : llvm::zip(before, wider.getFinals()))
    old.replaceAllUsesWith(now);
  for (auto [old, now] : llvm::zip(loop.getStacks(), wider.getStacks()))
    old.replaceAllUsesWith(now);
  for (auto [old, now] : llvm::zip(sums, wider.getSums()))
    old.replaceAllUsesWith(now);
  loop.erase();
}

struct CarryThrough : echelon::impl::CarryThroughBase<CarryThrough> {
  void runOnOperation() override {
    const dist::MeshAttr mesh = dist::meshOf(getOperation());
    SmallVector<RepeatOp> loops, outside;
    // In a row of repeats one that hands nothing on, as where it has losses alone, has what rides past it.
    auto isOfStages = [&](RepeatOp loop) {
      const int m = dist::stagesOf(mesh, loop.getAxis());
      return m >= 0 && mesh.sizeOf(m) > 1 && !loop.getAlong() &&
             (!loop.getCarried().empty() || mesh.place(m, loop.getAxis()) > 0);
    };
    getOperation().walk([&](RepeatOp loop) {
      if (!isOfStages(loop))
        return;
      auto pass = dyn_cast<RepeatOp>(loop->getParentOp());
      if (!pass)
        outside.push_back(loop);
      else if (pass.getTime())
        loops.push_back(loop);
    });
    llvm::for_each(outside, pipeline::carryOnAll);
    for (RepeatOp loop : loops) {
      SmallVector<unsigned> places;
      for (auto [i, sum] : llvm::enumerate(loop.getSums()))
        if (!isOnlyAddedUp(sum))
          places.push_back(unsigned(i));
      if (!places.empty())
        carry(loop, places);
    }
  }
};
} // namespace
