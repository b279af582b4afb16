#include "passes/recompute/GroupIterations.h"

#include "ir/dist/State.h"
#include "ir/ech/Build.h"
#include "passes/Loops.h"
#include "llvm/ADT/StringExtras.h"

using namespace mlir;
using namespace echelon;
using namespace echelon::ech;

namespace {

/// The loop as two, the inner one over the `size` iterations of a group along `inner`. The outer one keeps the axis:
/// over stages of a pipeline it is groups that are divided.
RepeatOp inGroups(RepeatOp loop, int64_t size, StringAttr inner, Type real) {
  const StringAttr axis = loop.getAxisAttr();
  const int64_t groups = int64_t(loop.getCount()) / size;
  OpBuilder builder(loop);
  Build build(builder, loop.getLoc(), real);
  SmallVector<Value> slices;
  for (Value whole : loop.getSlices())
    slices.push_back(build.relabel(whole, {axis}, {{axis, groups}, {inner, size}}));
  auto stacked = [&](int64_t count, StringRef along, TypeRange types) {
    return llvm::map_to_vector(types, [&](Type type) -> Type { return stackedType(cast<Tensor>(type), along, count); });
  };
  const SmallVector<Type> inside = stacked(size, inner, loop.yield().getStacked().getTypes());
  const TypeRange finals = loop.getFinals().getTypes(), sums = loop.getSums().getTypes();
  auto outer = RepeatOp::create(builder, loop.getLoc(), axis, groups, loop.getCarried(), slices, finals,
                                stacked(groups, axis, inside), sums);
  outer.setAlong(loop.getAlong());
  outer->setDiscardableAttr(kOverGroups, builder.getI64IntegerAttr(size));
  Block &block = outer.getBody().emplaceBlock();
  for (auto [value, argument] : llvm::zip(loop.getCarried(), loop.carriedArguments()))
    block.addArgument(value.getType(), argument.getLoc());
  for (auto [value, argument] : llvm::zip(slices, loop.sliceArguments()))
    block.addArgument(without(tensor(value), axis), argument.getLoc());

  builder.setInsertionPointToEnd(&block);
  auto body = RepeatOp::create(builder, loop.getLoc(), inner, size, outer.carriedArguments(), outer.sliceArguments(),
                               finals, inside, sums);
  body.setAlong(loop.getAlong());
  body.getBody().takeBody(loop.getBody());
  YieldOp::create(builder, loop.getLoc(), body.getFinals(), body.getStacks(), body.getSums());

  builder.setInsertionPointAfter(outer);
  for (auto [old, now] : llvm::zip(loop.getFinals(), outer.getFinals()))
    old.replaceAllUsesWith(now);
  for (auto [old, now] : llvm::zip(loop.getSums(), outer.getSums()))
    old.replaceAllUsesWith(now);
  for (auto [old, now] : llvm::zip(loop.getStacks(), outer.getStacks()))
    old.replaceAllUsesWith(build.relabel(now, {axis, inner}, {{axis, groups * size}}));
  loop.erase();
  return outer;
}

/// index(layer) in the inner loop: n times the group's position, and that in the group.
void countOn(RepeatOp outer, int64_t size, Type real) {
  auto inner = cast<RepeatOp>(&outer.block()->front());
  SmallVector<PositionOp> positions;
  inner.walk([&](PositionOp op) {
    if (op.getAxis() == outer.getAxis())
      positions.push_back(op);
  });
  for (PositionOp op : positions) {
    OpBuilder builder(op->getContext());
    builder.setInsertionPointAfter(op);
    Build build(builder, op.getLoc(), real);
    Value before = build.mul(op.getResult(), build.constant(double(size), tensor(op.getResult())));
    Value all = build.add(before, build.position(inner.getAxis()));
    op.getResult().replaceAllUsesExcept(all, before.getDefiningOp());
  }
}

/// Of the step's real numbers.
Type realType(StepOp step) {
  Type real;
  step.walk([&](ReportOp report) { real = tensor(report.getValue()).getElement(); });
  return real ? real : Float32Type::get(step.getContext());
}

void mark(RepeatOp loop) { loop->setAttr(kComputesAgain, UnitAttr::get(loop.getContext())); }

/// How many iterations the stages of a pipeline have, or the chunks of these; a loop without stages is one.
struct Parts {
  Parts(RepeatOp loop, ArrayRef<RepeatOp> loops) : all(int64_t(loop.getCount())), counts{all} {
    mesh = dist::meshOf(loop);
    over = dist::stagesOf(mesh, loop.getAxis());
    areStages = over >= 0 && mesh.sizeOf(over) > 1;
    if (!areStages)
      return;
    map = mesh.mapOf(over, loop.getAxis());
    auto balance = loop->getParentOfType<ModuleOp>()->getAttrOfType<DictionaryAttr>(dist::kBalance);
    isBalanced = balance && balance.contains(mesh.nameOf(over));
    llvm::SmallDenseSet<StringRef> row{loop.getAxis()};
    for (RepeatOp other : loops) // of a chain
      if (dist::stagesOf(mesh, other.getAxis()) == over && row.insert(other.getAxis()).second)
        others += int64_t(other.getCount());
    counts.clear();
    if (!map.isEqual())
      counts.assign(map.sizes.begin(), map.sizes.end());
    else if (all % places() == 0 && !isBalanced)
      counts = {all / places()};
  }

  int64_t places() const { return mesh.sizeOf(over) * map.chunks; }
  /// Whether iterations can be grouped by `size`: each stage, or chunk, has one group or more; in a chain, or none.
  bool divide(int64_t size) const {
    if (isBalanced) // groups are counted, then
      return all % size == 0 && all / size + others >= places();
    return llvm::all_of(counts, [&](int64_t count) { return count % size == 0 && (areStages || size < count); });
  }
  /// "the 4 of a stage, as layer = 8 has over pp = 2".
  std::string text(RepeatOp loop) const {
    const std::string of = loop.getAxis().str() + " = " + std::to_string(all);
    if (!areStages)
      return of;
    const std::string over = mesh.nameOf(this->over).str() + " = " + std::to_string(mesh.sizeOf(this->over)),
                      what = map.chunks > 1 ? "chunk" : "stage",
                      with = map.chunks > 1 ? ", interleaved(" + std::to_string(map.chunks) + ")" : "";
    if (isBalanced)
      return of + " into a group or more for each " + what + " of " + over + with +
             (others ? ", but for those that have others of the chain" : "");
    if (map.isEqual())
      return "the " + std::to_string(counts[0]) + " of a " + what + ", as " + of + " has over " + over + with;
    return "those of each " + what + ", as " + of + " has over " + over + with + " as " + dist::spellSizes(map);
  }

  int64_t all, others = 0; ///< others: iterations of the other repeats of a chain
  dist::MeshAttr mesh;
  int over = -1;
  dist::OwnerMap map;
  bool areStages = false, isBalanced = false;
  SmallVector<int64_t> counts; ///< none: unknown here, or layout refuses
};

/// Groups are of iterations in a row: those of a stage of a pipeline, or of one of its chunks. One group of a stage may
/// have all of them: of other micro batches less is kept meanwhile.
LogicalResult checkSize(const Recompute &clause, RepeatOp loop, ArrayRef<RepeatOp> loops) {
  const Parts parts(loop, loops);
  if (parts.divide(clause.every))
    return success();
  std::string divisors;
  for (int64_t n = 1; n <= parts.all; ++n)
    if (parts.divide(n))
      divisors += (divisors.empty() ? "" : ", ") + std::to_string(n);
  InFlightDiagnostic said = clause.error(loop->getParentOfType<ModuleOp>());
  if (!parts.areStages && clause.every >= parts.all)
    said << "one group of " << clause.every << " would be all iterations of " << parts.text(loop)
         << ", all of them kept at once";
  else
    said << "groups of " << clause.every << " iterations do not divide " << parts.text(loop);
  return said << "; " << (divisors.empty() ? "leave recompute out" : "groups can be of " + divisors);
}

LogicalResult group(const Recompute &clause, StepOp step, ArrayRef<RepeatOp> loops) {
  const Type real = realType(step);
  llvm::SetVector<StringRef> axes;
  SmallVector<RepeatOp> found;
  for (RepeatOp loop : loops) {
    axes.insert(loop.getAxis());
    if (loop.getAxis() != clause.axis)
      continue;
    found.push_back(loop);
    if (failed(checkSize(clause, loop, loops)))
      return failure();
  }
  for (RepeatOp loop : found) {
    if (clause.every > 1) {
      loop = inGroups(loop, clause.every, freeAxis(step, (clause.axis + "_in_group").str()), real);
      countOn(loop, clause.every, real);
    }
    mark(loop);
  }
  if (found.empty())
    return clause.error(step->getParentOfType<ModuleOp>())
           << "no repeat runs over " << clause.axis << "; repeats run over " << llvm::join(axes, ", ");
  return success();
}

} // namespace

LogicalResult echelon::groupIterations(StepOp step, const Recompute &clause) {
  SmallVector<RepeatOp> loops; // inner ones first
  step.walk([&](RepeatOp loop) { loops.push_back(loop); });
  if (loops.empty())
    return clause.error(step->getParentOfType<ModuleOp>())
           << "the model has no repeat, so there are no iterations to compute again, and recompute changes nothing; "
              "leave it out";
  if (clause.policy == "every")
    return group(clause, step, loops);
  for (RepeatOp loop : loops)
    if (loop->getParentOp() == step)
      mark(loop);
  return success();
}
