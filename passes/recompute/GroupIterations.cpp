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
  outer->setDiscardableAttr(kOverGroups, builder.getUnitAttr());
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

/// Groups are of iterations in a row: those of a stage of a pipeline, or of one of its chunks. One group of a stage may
/// have all of them: of other micro batches less is kept meanwhile.
LogicalResult checkSize(const Recompute &clause, RepeatOp loop) {
  const dist::MeshAttr mesh = dist::meshOf(loop);
  const int stages = dist::stagesOf(mesh, loop.getAxis());
  const int64_t ranks = stages < 0 ? 1 : mesh.sizeOf(stages);
  const int64_t chunks = ranks == 1 ? 1 : mesh.mapOf(stages, loop.getAxis()).chunks;
  const int64_t size = clause.every, all = int64_t(loop.getCount()), count = all / (ranks * chunks);
  if (all % (ranks * chunks) != 0) // which layout refuses
    return success();
  const int64_t most = ranks == 1 ? count - 1 : count;
  if (size <= most && count % size == 0)
    return success();
  std::string divisors;
  for (int64_t n = 1; n <= most; ++n)
    if (count % n == 0)
      divisors += (divisors.empty() ? "" : ", ") + std::to_string(n);
  const std::string of = loop.getAxis().str() + " = " + std::to_string(all);
  InFlightDiagnostic said = clause.error(loop->getParentOfType<ModuleOp>());
  if (ranks > 1)
    said << "groups of " << size << " iterations do not divide the " << count << " of a "
         << (chunks > 1 ? "chunk" : "stage") << ", as " << of << " has over " << mesh.nameOf(stages) << " = " << ranks
         << (chunks > 1 ? ", interleaved(" + std::to_string(chunks) + ")" : std::string());
  else if (size >= count)
    said << "one group of " << size << " would be all iterations of " << of << ", all of them kept at once";
  else
    said << "groups of " << size << " iterations do not divide " << of;
  return said << "; " << (divisors.empty() ? "leave recompute out" : "groups can be of " + divisors);
}

LogicalResult group(const Recompute &clause, StepOp step, ArrayRef<RepeatOp> loops) {
  const Type real = realType(step);
  llvm::SetVector<StringRef> axes;
  bool isFound = false;
  for (RepeatOp loop : loops) {
    axes.insert(loop.getAxis());
    if (loop.getAxis() != clause.axis)
      continue;
    isFound = true;
    if (failed(checkSize(clause, loop)))
      return failure();
    if (clause.every > 1) {
      loop = inGroups(loop, clause.every, freeAxis(step, (clause.axis + "_in_group").str()), real);
      countOn(loop, clause.every, real);
    }
    mark(loop);
  }
  if (!isFound)
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
