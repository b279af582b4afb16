// dist-fuse: chains of element-wise operations, and sums of them, become one loop nest.
//
// In each block:
// 1. `dot` without axes of its own becomes a product and a sum; what is kept in two bytes is read by each user, but for
//    what a GPU's product has just given.
// 2. Every element-wise operation and every sum is a group; a producer's group joins its consumer's where the union is
//    one loop nest (one set of axes, no use of a sum inside) and no path between them leads outside. What comes before
//    the report of the norm joins nothing behind it: a step that is not finite ends there, and has written nothing.
//    What a pipeline's backward pass needs comes before its forward pass, in whose turns it runs: it joins nothing
//    else.
// 3. What a group reads of another is computed in both, if little computing makes it of one stored value: it is then
//    not stored.
// 4. Groups and other operations are put in order again, each as late as its last operation stood.
// 5. Each group becomes an rt.group; free values are made again inside.
// Steps 2 to 5 are in passes/fuse.
#include "ir/ech/Build.h"
#include "passes/Passes.h"
#include "passes/Phase.h"
#include "passes/fuse/BlockFusion.h"
#include "passes/types/Products.h"

namespace echelon {
#define GEN_PASS_DEF_FUSE
#include "passes/Passes.h.inc"
} // namespace echelon

using namespace mlir;
using namespace echelon;
using namespace echelon::fuse;
using types::isWidening;

namespace {
void splitInnerProducts(Block &block) {
  for (ech::DotOp op : llvm::make_early_inc_range(block.getOps<ech::DotOp>())) {
    ech::Tensor a = ech::tensor(op.getLhs()), b = ech::tensor(op.getRhs());
    if (a.rank() != b.rank() || !llvm::all_of(a.getAxes(), [&](const Axis &x) { return b.has(x.name); }))
      continue;
    OpBuilder builder(op);
    ech::Build build(builder, op.getLoc(), ech::tensor(op.getResult()).getElement());
    Value lhs = build.toReal(op.getLhs()), rhs = build.toReal(op.getRhs());
    auto product = ech::MapOp::create(builder, op.getLoc(), ech::tensor(lhs), ech::Function::Mul, ValueRange{lhs, rhs});
    auto sum = ech::ReduceOp::create(builder, op.getLoc(), op.getType(), ech::Reduction::Sum, product.getResult(),
                                     op.getOver());
    SmallVector<Operation *> made{product, sum};
    for (auto [now, before] : {std::pair(lhs, op.getLhs()), std::pair(rhs, op.getRhs())})
      if (now != before)
        made.push_back(now.getDefiningOp());
    if (Attribute phase = op->getAttr(ech::kPhase))
      for (Operation *each : made)
        each->setAttr(ech::kPhase, phase);
    op.replaceAllUsesWith(sum.getResult());
    op.erase();
  }
}
/// What the backward pass has just multiplied is f32 once for all who read it so: they may make one nest.
bool isShared(ech::MapOp widening) {
  return widening.getOperands()[0].getDefiningOp<dist::LinearOp>() && isOfBackward(widening);
}
void shareWidenings(Block &block) {
  DenseMap<Value, ech::MapOp> known;
  for (ech::MapOp op : llvm::to_vector(block.getOps<ech::MapOp>())) {
    if (!isWidening(op) || !isShared(op))
      continue;
    ech::MapOp &first = known[op.getOperands()[0]];
    if (!first) {
      first = op;
    } else if (first.getType() == op.getType()) {
      op.replaceAllUsesWith(first.getResult());
      op.erase();
    }
  }
}
/// Each loop nest reads by itself what else is kept in two bytes.
void splitWidenings(Block &block) {
  for (ech::MapOp op : llvm::to_vector(block.getOps<ech::MapOp>())) {
    if (!isWidening(op) || isShared(op))
      continue;
    for (OpOperand &use : llvm::make_early_inc_range(op.getResult().getUses())) {
      Operation *user = use.getOwner();
      if (!isFusable(user))
        continue;
      Operation *copy = OpBuilder(user).clone(*op);
      copy->removeAttr(ech::kPhase);
      copyPhase(user, copy);
      use.set(copy->getResult(0));
    }
    if (op->use_empty())
      op.erase();
  }
}
} // namespace

void BlockFusion::run() {
  splitInnerProducts(block);
  shareWidenings(block);
  splitWidenings(block);
  int64_t next = 0;
  for (Operation &op : block) {
    if (auto report = dyn_cast<ech::ReportOp>(op); report && report.getKind() == ech::ReportKind::Norm)
      norm = next;
    place[&op] = next++;
    if (!isFusable(&op))
      continue;
    auto group = std::make_unique<Group>();
    group->ops.push_back(&op);
    group->space = spaceOf(&op);
    groupOf[&op] = group.get();
    groups.push_back(std::move(group));
  }
  stretches.resize(size_t(next));
  findNeededInTurns();
  for (bool again = true; again;) {
    again = false;
    for (Operation &op : block)
      if (groupOf.count(&op))
        for (Value v : op.getOperands())
          if (Operation *producer = v.getDefiningOp(); producer && groupOf.count(producer))
            again |= join(groupOf[producer], groupOf[&op]);
  }
  // what is a view or one kernel call by itself stays as it is
  for (auto &group : groups) {
    bool views = llvm::all_of(group->ops, [](Operation *op) { return isa<ech::ExpandOp>(op); });
    if (views || (group->ops.size() == 1 && isSum(group->ops[0]))) {
      for (Operation *op : group->ops)
        groupOf.erase(op);
      group->ops.clear();
    }
  }
  for (auto &group : groups)
    if (!group->ops.empty())
      makeAgain(*group);
  dropUnused();
  order();
  for (auto &group : groups)
    if (!group->ops.empty())
      build(*group);
}

namespace {
struct Fuse : echelon::impl::FuseBase<Fuse> {
  void runOnOperation() override {
    ModuleOp module = getOperation();
    dist::MeshAttr mesh = dist::meshOf(module);
    SmallVector<Block *> blocks;
    for (auto step : module.getOps<ech::StepOp>()) {
      step.walk([&](Operation *op) {
        if (isa<ech::RepeatOp, dist::AtOp>(op))
          blocks.push_back(&op->getRegion(0).front());
      });
      blocks.push_back(&step.getBody().front());
    }
    for (Block *block : blocks)
      BlockFusion(*block, mesh).run();
    for (auto step : module.getOps<ech::StepOp>())
      step.walk([](Operation *op) {
        if (isFree(op) && op->use_empty())
          op->erase();
      });
  }
};
} // namespace
