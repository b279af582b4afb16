// Every operation on laid-out values, held against the table of the rule: what is not in it cannot be emitted.
#include "passes/layout/Rule.h"
#include "passes/layout/Store.h"

using namespace mlir;
using namespace echelon;
using namespace echelon::dist;
using namespace echelon::layout;

/// Over mesh axis m, with the entries of operands and results as they are: is there one way of the table that gives
/// them?
static bool isInTable(Operation *op, int m, MeshAttr mesh) {
  auto rule = cast<ech::AxisRule>(op);
  auto entry = [&](Value v) -> const Entry & { return stateOf(v)[m]; };
  auto is = [&](Value v, Hold hold) { return entry(v).hold == hold; };
  auto isNumber = [](Value v) { return ech::tensor(v).rank() == 0; };
  // nothing is divided
  if (llvm::all_of(op->getOperands(), [&](Value v) { return is(v, Hold::Whole); }) &&
      llvm::all_of(op->getResults(), [&](Value v) { return is(v, Hold::Whole); }))
    return true;
  if (goesRound(op, m, mesh)) {
    auto fits = [&](Value v) { return entry(v) == entryInRing(op, v, m, mesh); };
    return llvm::all_of(op->getOperands(), fits) && llvm::all_of(op->getResults(), fits);
  }
  // a sum passes
  auto isSum = [&](Value v) { return is(v, Hold::Sum); };
  if (llvm::all_of(op->getResults(), isSum)) {
    if (staysLinear(op, llvm::map_to_vector(op->getOperands(), isSum), mesh.nameOf(m)) &&
        llvm::all_of(op->getOperands(), [&](Value v) { return isSum(v) || is(v, Hold::Whole); }))
      return true;
    if (rule.pendingRule() == ech::PendingRule::Add && llvm::all_of(op->getOperands(), isSum))
      return true;
    if (rule.pendingRule() == ech::PendingRule::Through &&
        llvm::all_of(op->getOperands(), [&](Value v) { return isSum(v) || (is(v, Hold::Whole) && ech::isNumber(v)); }))
      return true;
  }
  // cuts of one kind, element-wise; numbers beside them are whole
  auto isCut = [&](Value v) { return is(v, Hold::Cut) || is(v, Hold::Flat); };
  Value first = op->getResult(0);
  if (isa<ech::MapOp, ech::ExpandOp>(op) && isCut(first))
    return llvm::all_of(op->getOperands(), [&](Value v) {
      return entry(v) == entry(first) ||
             (is(v, Hold::Whole) && (isNumber(v) || (entry(first).axis && !ech::tensor(v).has(entry(first).axis))));
    });
  // a sum of what is cut along an axis
  if (auto reduce = dyn_cast<ech::ReduceOp>(op); reduce && entry(reduce.getOperand()).hold == Hold::Cut) {
    const Entry &cut = entry(reduce.getOperand());
    return ech::tensor(first).has(cut.axis) ? entry(first) == cut
                                            : reduce.getKind() == ech::Reduction::Sum && isSum(first);
  }
  // one axis is divided
  for (ValueRange values : {ValueRange(op->getOperands()), ValueRange(op->getResults())})
    for (Value v : values) {
      StringAttr axis = is(v, Hold::Split) ? entry(v).axis : StringAttr();
      if (!axis)
        continue;
      ech::Division division = rule.division(axis);
      auto asSplit = [&](Value x) { return is(x, Hold::Split) && entry(x).axis == axis; };
      bool inside = division == ech::Division::Inside;
      if (division != ech::Division::Never &&
          llvm::all_of(op->getOperands(),
                       [&](Value x) { return ech::tensor(x).has(axis) ? asSplit(x) : is(x, Hold::Whole); }) &&
          llvm::all_of(op->getResults(), [&](Value x) {
            return ech::tensor(x).has(axis) ? asSplit(x) : is(x, inside ? Hold::Whole : Hold::Sum);
          }))
        return true;
    }
  return false;
}

/// Slices and stacks lie as the whole does, an iteration at a time; over stages of a pipeline, sums are pending.
static LogicalResult checkLoop(ech::RepeatOp loop, MeshAttr mesh) {
  for (auto [whole, slice] : llvm::zip(loop.getSlices(), loop.sliceArguments()))
    if (stateOf(slice) != stateOfSlice(ech::tensor(whole), loop.getAxisAttr()))
      return loop->emitError("internal error, please report: a slice of ")
             << ech::tensor(whole) << " is not " << ech::tensor(slice);
  for (auto [each, stack] : llvm::zip(loop.yield().getStacked(), loop.getStacks()))
    if (stateOf(stack) != stateOfStack(stateOf(each), loop.getAxisAttr(), mesh))
      return loop->emitError("internal error, please report: a stack of ")
             << ech::tensor(each) << " is not " << ech::tensor(stack);
  for (auto [each, sum] : llvm::zip(loop.yield().getSummed(), loop.getSums())) {
    StateAttr wanted = stateOf(each);
    if (const int stages = stagesOf(mesh, loop.getAxis()); stages >= 0)
      wanted = wanted.with(stages, Hold::Sum);
    if (stateOf(sum) != wanted)
      return loop->emitError("internal error, please report: a sum of ")
             << ech::tensor(each) << " is not " << ech::tensor(sum);
  }
  return success();
}

static LogicalResult checkOperation(Operation *op, MeshAttr mesh) {
  for (ValueRange values : {ValueRange(op->getOperands()), ValueRange(op->getResults())})
    for (Value v : values)
      if (auto type = dyn_cast<Tensor>(v.getType())) {
        if (!stateOf(type))
          return op->emitError("internal error: a value without a state, please report");
        if (failed(checkState(type, stateOf(type), mesh,
                              [&] { return op->emitError("internal error, please report: "); })))
          return failure();
      }
  if (auto loop = dyn_cast<ech::RepeatOp>(op))
    return checkLoop(loop, mesh);
  if (!isa<ech::AxisRule>(op) || op->getNumResults() == 0)
    return success();
  if (isa<ech::ReadOp, ech::GlobalNormOp>(op) || op->getNumOperands() == 0)
    return success();
  if (auto relabel = dyn_cast<ech::RelabelOp>(op)) {
    StateAttr from = stateOf(relabel.getOperand()), to = stateOf(relabel.getResult());
    auto renamed = renameState(from, ech::tensor(relabel.getOperand()), ech::tensor(relabel.getResult()),
                               relabel.getFrom(), relabel.getTo(), mesh);
    for (int m = 0; m < mesh.size(); ++m)
      if (from[m] != to[m] && renamed[m] != to[m])
        return op->emitError("internal error, please report: over ")
               << mesh.nameOf(m) << ", " << spell(from[m]) << " does not become " << spell(to[m]);
    return success();
  }
  for (int m = 0; m < mesh.size(); ++m)
    if (!isInTable(op, m, mesh)) {
      auto error = op->emitError("internal error, please report: over ")
                   << mesh.nameOf(m) << ", the operation cannot take";
      for (Value v : op->getOperands())
        error << " " << spell(stateOf(v)[m]);
      error << " and give";
      for (Value v : op->getResults())
        error << " " << spell(stateOf(v)[m]);
      return failure();
    }
  return success();
}

LogicalResult echelon::layout::checkStates(Operation *root, MeshAttr mesh) {
  bool good = true;
  root->walk([&](Operation *op) { good &= succeeded(checkOperation(op, mesh)); });
  return success(good);
}
