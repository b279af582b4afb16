// As many iterations for each stage of a pipeline as let the slowest stage be as fast as possible.
//   1. In the pass of the model that has the loop, each operation is of an iteration, or of what stands outside of the
//      loop: what goes into the first iteration and what follows from its derivative (the first stage), or what follows
//      from the last iteration, but not from the derivative (the last stage). Of loops in a row likewise, each.
//   2. All iterations of one loop cost the same. So one after the other they go to the stage that is fastest with it,
//      and there to its smallest chunk; of equals to the later one, as the earlier ones keep values of more micro
//      batches. Of loops in a row, all ways to cut the row are compared (pipeline/Balance.h).
#include "ir/dist/State.h"
#include "ir/ech/Recompute.h"
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

/// The repeats along one axis: one that hands something on, as stages do, with its derivative, null in an evaluation;
/// and all that stages have a part of.
struct Loops {
  ech::RepeatOp forward, backward;
  SmallVector<ech::RepeatOp> all;
};
/// Those in a block that has one which hands something on; else those of the first block.
Loops loopsAlong(ModuleOp module, StringRef axis) {
  Loops found;
  module.walk([&](ech::RepeatOp loop) {
    if (loop.getAxis() != axis || found.backward)
      return; // the derivative is where the loop is
    Loops here;
    for (auto each : loop->getBlock()->getOps<ech::RepeatOp>())
      if (each.getAxis() == axis) {
        here.all.push_back(each);
        if (!each.getCarried().empty())
          (each.getReverse() ? here.backward : here.forward) = each;
      }
    if (here.forward || found.all.empty())
      found = here;
  });
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

/// What a loop carries into its first iteration, or reads in all, and what that is made of, in its block.
llvm::DenseSet<Operation *> before(ech::RepeatOp loop) {
  llvm::DenseSet<Operation *> found;
  SmallVector<Value> open(loop.getCarried());
  loop->walk([&](Operation *inner) { llvm::append_range(open, inner->getOperands()); });
  while (!open.empty()) {
    Operation *def = open.pop_back_val().getDefiningOp();
    if (def && def->getBlock() == loop->getBlock() && found.insert(def).second)
      def->walk([&](Operation *inner) { llvm::append_range(open, inner->getOperands()); });
  }
  return found;
}

/// Whether each stage does its part of it: of what is there for each iteration.
bool isDivided(Operation *op, ArrayAttr axes) {
  auto isPart = [&](Type type) {
    auto tensor = dyn_cast<Tensor>(type);
    return tensor && llvm::any_of(tensor.names(), [&](StringRef axis) { return ech::has(axes, axis); });
  };
  return llvm::any_of(op->getOperandTypes(), isPart) || llvm::any_of(op->getResultTypes(), isPart);
}

/// All operations of a pass by what they are of: an iteration; what leads into a repeat, or follows from its derivative
/// and leads into none before; what follows from the last repeat. What all stages do counts for none. A repeat that
/// hands on nothing has iterations alone.
pipeline::StageCosts costsOf(MutableArrayRef<Loops> row, ArrayAttr axes) {
  pipeline::StageCosts costs;
  llvm::DenseMap<Operation *, size_t> leadsInto;
  llvm::DenseSet<Operation *> last, loops;
  Operation *first = nullptr; // of those that hand something on
  for (auto [i, each] : llvm::enumerate(row)) {
    pipeline::RepeatCosts &of = costs.repeats.emplace_back();
    of.count = each.all.empty() ? 0 : static_cast<int64_t>(each.all.front().getCount()); // nobody reads what it makes
    for (ech::RepeatOp loop : each.all) {
      loops.insert(loop);
      of.iteration += flopsOf(loop) / of.count;
    }
    if (!each.forward)
      continue;
    if (!first)
      first = each.forward;
    for (Operation *op : before(each.forward))
      leadsInto.try_emplace(op, i);
    if (each.backward) // of derivatives the later repeat's comes first
      for (Operation *op : behind(each.backward))
        leadsInto.try_emplace(op, i);
    last = behind(each.forward);
  }
  if (!first)
    return costs;
  for (Operation &op : *first->getBlock()) {
    if (loops.contains(&op) || isDivided(&op, axes))
      continue;
    if (auto into = leadsInto.find(&op); into != leadsInto.end())
      costs.repeats[into->second].before += flopsOf(&op);
    else if (last.contains(&op))
      costs.behind += flopsOf(&op);
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
      SmallVector<Loops> row;
      for (StringRef axis : axes[m].list.getAsValueRange<StringAttr>())
        row.push_back(loopsAlong(module, axis));
      const pipeline::StageCosts costs = costsOf(row, axes[m].list);
      const int64_t chunks = mesh.mapOf(m, cast<StringAttr>(axes[m].list[0])).chunks;
      if (llvm::all_of(costs.repeats, [](const pipeline::RepeatCosts &repeat) { return repeat.count == 0; }))
        continue;
      for (auto [axis, repeat] : llvm::zip(axes[m].list.getAsValueRange<StringAttr>(), costs.repeats))
        if (repeat.count == 0) {
          emitError(cast<LocationAttr>(each.getValue())) << "E0312: stages cannot be balanced by " << axis
                                                         << ": nobody reads what this repeat makes; leave it out";
          return signalPassFailure();
        }
      auto maps = pipeline::balanced(costs, axes[m].size, chunks);
      for (auto [map, loops] : llvm::zip(maps, row)) { // groups of iterations have been counted, where there are such
        auto group = loops.all[0]->getAttrOfType<IntegerAttr>(ech::kOverGroups);
        for (int64_t &size : map.sizes)
          size *= group ? group.getInt() : 1;
      }
      axes[m].maps = listMaps(b.getContext(), maps);
      SmallVector<int64_t> numbers;
      for (const pipeline::RepeatCosts &repeat : costs.repeats)
        numbers.append({repeat.before, repeat.iteration});
      numbers.push_back(costs.behind);
      wentBy.push_back(b.getNamedAttr(each.getName(), b.getDenseI64ArrayAttr(numbers)));
    }
    module->setAttr(kMesh, MeshAttr::get(module.getContext(), axes));
    module->setAttr(kBalancedBy, b.getDictionaryAttr(wentBy));
  }
};
} // namespace
