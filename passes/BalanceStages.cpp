// As many iterations for each stage of a pipeline as let the slowest stage be as fast as possible.
//   1. In the pass of the model that has the loop, each operation is of an iteration, or of what stands outside of the
//      loop: what goes into the first iteration and what follows from its derivative (the first stage), or what follows
//      from the last iteration, but not from the derivative (the last stage). Of loops in a row likewise, each.
//   2. All iterations of one loop cost the same. So one after the other they go to the stage that is fastest with it,
//      and there to its smallest chunk; of equals to the later one, as the earlier ones keep values of more micro
//      batches. Of loops in a row, all ways to cut the row are compared (pipeline/Balance.h).
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

/// A repeat that hands something on, as stages do, and its derivative, null in an evaluation.
struct Loops {
  ech::RepeatOp forward, backward;
};
Loops loopsIn(Block &block, StringRef axis) {
  Loops found;
  for (auto loop : block.getOps<ech::RepeatOp>())
    if (loop.getAxis() == axis && !loop.getCarried().empty())
      (loop.getReverse() ? found.backward : found.forward) = loop;
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
/// and leads into none before; what follows from the last repeat. What all stages do counts for none.
pipeline::StageCosts costsOf(ArrayRef<Loops> row, ArrayAttr axes) {
  pipeline::StageCosts costs;
  llvm::DenseMap<Operation *, size_t> leadsInto;
  for (auto [i, loops] : llvm::enumerate(row)) {
    for (Operation *op : before(loops.forward))
      leadsInto.try_emplace(op, i);
    if (loops.backward) // of derivatives the later repeat's comes first
      for (Operation *op : behind(loops.backward))
        leadsInto.try_emplace(op, i);
  }
  const llvm::DenseSet<Operation *> last = behind(row.back().forward);
  for (Loops loops : row)
    costs.repeats.push_back({static_cast<int64_t>(loops.forward.getCount()), 0, 0});
  for (Operation &op : *row.front().forward->getBlock()) {
    auto *loops = llvm::find_if(row, [&](Loops each) { return &op == each.forward || &op == each.backward; });
    if (loops != row.end()) {
      pipeline::RepeatCosts &of = costs.repeats[size_t(loops - row.begin())];
      of.iteration += flopsOf(&op) / of.count;
    } else if (isDivided(&op, axes)) {
      continue;
    } else if (auto into = leadsInto.find(&op); into != leadsInto.end()) {
      costs.repeats[into->second].before += flopsOf(&op);
    } else if (last.contains(&op)) {
      costs.behind += flopsOf(&op);
    }
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
      const pipeline::StageCosts costs = costsOver(axes[m].list);
      if (costs.repeats.empty())
        continue;
      if (costs.repeats.size() != axes[m].list.size()) {
        emitError(cast<LocationAttr>(each.getValue()))
            << "E0601: `as balanced` of a chain in which a repeat hands on nothing is not built yet; give the numbers, "
               "as (…)";
        return signalPassFailure();
      }
      const auto first = cast<StringAttr>(axes[m].list[0]);
      axes[m].maps = listMaps(b.getContext(), pipeline::balanced(costs, axes[m].size, mesh.mapOf(m, first).chunks));
      SmallVector<int64_t> numbers;
      for (const pipeline::RepeatCosts &repeat : costs.repeats)
        numbers.append({repeat.before, repeat.iteration});
      numbers.push_back(costs.behind);
      wentBy.push_back(b.getNamedAttr(each.getName(), b.getDenseI64ArrayAttr(numbers)));
    }
    module->setAttr(kMesh, MeshAttr::get(module.getContext(), axes));
    module->setAttr(kBalance, b.getDictionaryAttr(wentBy));
  }

  /// Of the repeats along these axes; without one that hands something on, stages have nothing besides. None: there is
  /// no such repeat.
  pipeline::StageCosts costsOver(ArrayAttr axes) {
    SmallVector<Loops> row(axes.size());
    ech::RepeatOp any;
    getOperation().walk([&](ech::RepeatOp loop) {
      if (!ech::has(axes, loop.getAxis()))
        return;
      any = loop;
      for (auto [axis, known] :
           llvm::zip(axes.getAsValueRange<StringAttr>(), row)) // the derivative is where the loop is
        if (Loops found = loopsIn(*loop->getBlock(), axis); found.forward && !known.backward)
          known = found;
    });
    llvm::erase_if(row, [](Loops loops) { return !loops.forward; });
    if (!row.empty())
      return costsOf(row, axes);
    if (!any)
      return {};
    const auto count = static_cast<int64_t>(any.getCount());
    return pipeline::StageCosts{{{count, flopsOf(any) / std::max<int64_t>(1, count), 0}}, 0};
  }
};
} // namespace
