// As many iterations for each stage of a pipeline as let the slowest stage be as fast as possible.
//   1. In the pass of the model that has the loop, each operation is of an iteration, or of what stands outside of the
//      loop: what goes into the first iteration and what follows from its derivative (the first stage), or what follows
//      from the last iteration, but not from the derivative (the last stage). What all stages do counts for none.
//   2. All iterations cost the same. So one after the other they go to the stage that is fastest with it, and there to
//      its smallest chunk; of equals to the later one, as the earlier ones keep values of more micro batches.
#include "ir/dist/State.h"
#include "passes/Passes.h"
#include "passes/pipeline/Balance.h"

namespace echelon {
#define GEN_PASS_DEF_BALANCESTAGES
#include "passes/Passes.h.inc"
} // namespace echelon
using namespace mlir;
using namespace echelon;
using namespace echelon::dist;

namespace {
/// What an operation costs, with all iterations of the loops inside of it.
int64_t flopsOf(Operation *op) {
  int64_t sum = 0;
  if (auto costed = dyn_cast<ech::Costed>(op))
    sum += costed.flops();
  auto loop = dyn_cast<ech::RepeatOp>(op);
  const int64_t times = loop ? std::max<int64_t>(1, static_cast<int64_t>(loop.getCount())) : 1;
  for (Region &region : op->getRegions())
    for (Operation &inner : region.getOps())
      sum += times * flopsOf(&inner);
  return sum;
}

/// The loops of a block along an axis that hand something on, as stages do: forward, backward.
std::pair<ech::RepeatOp, ech::RepeatOp> loopsIn(Block &block, StringAttr axis) {
  std::pair<ech::RepeatOp, ech::RepeatOp> found;
  for (auto loop : block.getOps<ech::RepeatOp>())
    if (loop.getAxisAttr() == axis && !loop.getCarried().empty())
      (loop.getReverse() ? found.second : found.first) = loop;
  return found;
}

/// What reads a loop's results, and what reads that, in its block.
llvm::DenseSet<Operation *> behind(Operation *loop) {
  llvm::DenseSet<Operation *> found{loop};
  for (Operation *op = loop->getNextNode(); op; op = op->getNextNode())
    op->walk([&](Operation *inner) {
      for (Value operand : inner->getOperands())
        if (Operation *def = operand.getDefiningOp(); def && found.contains(def))
          found.insert(op);
    });
  found.erase(loop);
  return found;
}

/// What a loop carries into its first iteration, and what that is made of, in its block.
llvm::DenseSet<Operation *> before(ech::RepeatOp loop) {
  llvm::DenseSet<Operation *> found;
  SmallVector<Value> open(loop.getCarried());
  while (!open.empty()) {
    Operation *def = open.pop_back_val().getDefiningOp();
    if (def && def->getBlock() == loop->getBlock() && found.insert(def).second)
      def->walk([&](Operation *inner) { llvm::append_range(open, inner->getOperands()); });
  }
  return found;
}

/// Whether each stage does its part of it: of what is there for each iteration.
bool isDivided(Operation *op, StringRef axis) {
  auto isPart = [&](Type type) {
    auto tensor = dyn_cast<Tensor>(type);
    return tensor && tensor.has(axis);
  };
  return llvm::any_of(op->getOperandTypes(), isPart) || llvm::any_of(op->getResultTypes(), isPart);
}

/// All operations of a pass by what they are of; without a loop that hands something on, stages have nothing besides.
pipeline::StageCosts costsOf(ech::RepeatOp forward, ech::RepeatOp backward) {
  pipeline::StageCosts costs;
  const llvm::DenseSet<Operation *> last = behind(forward);
  llvm::DenseSet<Operation *> first = before(forward);
  if (backward)
    for (Operation *op : behind(backward))
      first.insert(op);
  for (Operation &op : *forward->getBlock()) {
    if (&op == forward || &op == backward)
      costs.iteration += flopsOf(&op) / static_cast<int64_t>(forward.getCount());
    else if (isDivided(&op, forward.getAxis()))
      continue;
    else if (first.contains(&op))
      costs.first += flopsOf(&op);
    else if (last.contains(&op))
      costs.last += flopsOf(&op);
  }
  return costs;
}

struct BalanceStages : echelon::impl::BalanceStagesBase<BalanceStages> {
  void runOnOperation() override {
    ModuleOp module = getOperation();
    MeshAttr mesh = meshOf(module);
    auto balance = module->getAttrOfType<DictionaryAttr>(kBalance);
    if (!mesh || !balance)
      return;
    SmallVector<MeshAxis> axes(mesh.getAxes());
    SmallVector<NamedAttribute> wentBy;
    Builder b(module.getContext());
    for (NamedAttribute each : balance) {
      const int m = mesh.index(each.getName());
      const auto axis = cast<StringAttr>(axes[m].list[0]);
      std::pair<ech::RepeatOp, ech::RepeatOp> loops;
      ech::RepeatOp any;
      module.walk([&](ech::RepeatOp loop) { // the derivative is where the loop is
        if (loop.getAxisAttr() == axis)
          any = loop;
        if (auto found = loopsIn(*loop->getBlock(), axis); found.first && !loops.second)
          loops = found;
      });
      if (!any)
        continue;
      const pipeline::StageCosts costs =
          loops.first ? costsOf(loops.first, loops.second) : pipeline::StageCosts{flopsOf(any), 0, 0};
      axes[m].maps = listMaps(b.getContext(), pipeline::balanced(costs, static_cast<int64_t>(any.getCount()),
                                                                 axes[m].size, mesh.mapOf(m, axis).chunks));
      wentBy.push_back(
          b.getNamedAttr(each.getName(), b.getDenseI64ArrayAttr({costs.iteration, costs.first, costs.last})));
    }
    module->setAttr(kMesh, MeshAttr::get(module.getContext(), axes));
    module->setAttr(kBalance, b.getDictionaryAttr(wentBy));
  }
};
} // namespace
