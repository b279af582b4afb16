// Large gradients of a repeat travel iteration by iteration.
//   1. An all_reduce of the update takes part if it goes between machines, its one value is what a repeat stacks up,
//      nobody else reads that, and an iteration's is large.
//   2. Each iteration starts the sum of what it stacks, and where the sum stood the stack is waited for.
#include "ir/dist/State.h"
#include "ir/ech/Build.h"
#include "passes/Passes.h"
#include "passes/Phase.h"

namespace echelon {
#define GEN_PASS_DEF_OVERLAPLOOPS
#include "passes/Passes.h.inc"
} // namespace echelon
using namespace mlir;
using namespace echelon;
using namespace echelon::dist;

namespace {
struct OverlapLoops : echelon::impl::OverlapLoopsBase<OverlapLoops> {
  using OverlapLoopsBase::OverlapLoopsBase;

  void runOnOperation() override {
    if (leastBytes < 1) {
      getOperation().emitError("least-bytes is at least 1");
      return signalPassFailure();
    }
    SmallVector<AllReduceOp> sums;
    getOperation().walk([&](AllReduceOp op) {
      if (isOfUpdate(op))
        sums.push_back(op);
    });
    for (AllReduceOp sum : sums)
      startEach(sum);
  }

  /// Whether some of the ranks that the message puts together are on different machines.
  static bool goesBetweenMachines(AllReduceOp message) {
    auto nodeRanks = message->getParentOfType<ModuleOp>()->getAttrOfType<IntegerAttr>(kNodeRanks);
    MeshAttr mesh = meshOf(message);
    for (int64_t rank = 0; nodeRanks && rank < mesh.ranks(); ++rank) {
      int64_t first = 0; // of those that it is put together with
      for (auto [m, at] : llvm::enumerate(coordinates(mesh, rank)))
        first = first * mesh.sizeOf(m) + (ech::has(message.getOver(), mesh.nameOf(m)) ? 0 : at);
      if (first / nodeRanks.getInt() != rank / nodeRanks.getInt())
        return true;
    }
    return false;
  }

  void startEach(AllReduceOp sum) {
    auto stack = sum.getValues().size() == 1 ? dyn_cast<OpResult>(sum.getValues()[0]) : OpResult();
    auto loop = stack ? dyn_cast<ech::RepeatOp>(stack.getOwner()) : ech::RepeatOp();
    if (!loop || loop.getTime() || loop->getBlock() != sum->getBlock() || !stack.hasOneUse())
      return;
    int64_t at = stack.getResultNumber() - int64_t(loop.getFinals().size());
    if (at < 0 || at >= int64_t(loop.getStacks().size()))
      return;
    ech::YieldOp yield = loop.yield();
    Value value = yield.getStacked()[at];
    ech::Tensor whole = ech::tensor(sum.getResults()[0]), each = ech::tensor(value).withState(whole.getState());
    if (ech::stackedType(each, loop.getAxis(), loop.getCount()) != whole ||
        localBytes(ech::tensor(value), meshOf(sum)) < leastBytes || !goesBetweenMachines(sum))
      return;
    OpBuilder builder(yield);
    Operation *made = value.getDefiningOp();
    if (made && made->getBlock() == yield->getBlock())
      builder.setInsertionPointAfter(made);
    else
      builder.setInsertionPointToStart(yield->getBlock());
    // the line that makes the gradient tells more than the one that asked for its sum
    auto started = StartEachOp::create(builder, value.getLoc(), each, "all_reduce", value, sum.getOver(), sum.getWhy(),
                                       sum.getAlgorithm());
    copyPhase(loop, started);
    yield.getStackedMutable()[at].set(started.getResult());
    stack.setType(whole);
    builder.setInsertionPoint(sum);
    auto waited = WaitEachOp::create(builder, sum.getLoc(), whole, stack);
    copyPhase(sum, waited);
    sum.getResults()[0].replaceAllUsesWith(waited.getResult());
    sum.erase();
  }
};
} // namespace
