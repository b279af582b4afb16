#include "passes/time/Kinds.h"

using namespace mlir;
using namespace echelon;
using namespace echelon::ech;

LogicalResult Kinds::decide() {
  kinds.clear();
  inside.clear();
  shared.clear();
  early.clear();
  return decide(step.getBody().front(), /*nested=*/false);
}

LogicalResult Kinds::decide(Block &block, bool nested) {
  bool fine = true; // every mistake of the step is told, not only the first
  for (Operation &op : block) {
    if (!isa<ReportOp, GradientOp, WriteOp, YieldOp>(op)) {
      auto repeat = dyn_cast<RepeatOp>(op);
      fine &= succeeded(repeat ? decideRepeat(repeat, nested) : decide(&op, nested));
    }
    if (&op == last)
      break;
  }
  return success(fine);
}

void Kinds::set(Value value, Kind kind) { kinds[value] = settled.contains(value) ? Kind::Fixed : kind; }

//===- one operation
//----------------------------------------------------------------------------------------------------===//

LogicalResult Kinds::decide(Operation *op, bool nested) {
  auto batched = [&](ValueRange values) { return llvm::any_of(values, [&](Value v) { return hasBatch(v); }); };
  auto any = [&](Kind kind) { return llvm::any_of(op->getOperands(), [&](Value v) { return of(v) == kind; }); };
  auto give = [&](Kind whole) {
    for (Value result : op->getResults())
      set(result, hasBatch(result) ? Kind::Sample : whole);
  };
  if (batched(op->getOperands()) || batched(op->getResults())) {
    inside.insert(op);
    give(op->hasAttr(kLocal) ? Kind::Sample : Kind::Partial);
    if (failed(checkAlongBatch(op)))
      return failure();
    for (Value operand : op->getOperands())
      if (Kind kind = of(operand); kind == Kind::Partial || kind == Kind::After)
        if (failed(needTotal(op, operand)))
          return failure();
    return success();
  }
  if (any(Kind::Sample)) { // statistics of this pass alone
    inside.insert(op);
    for (Value result : op->getResults())
      set(result, Kind::Sample);
    for (Value operand : op->getOperands())
      if (Kind kind = of(operand); kind == Kind::Partial || kind == Kind::After)
        if (failed(needTotal(op, operand)))
          return failure();
    return success();
  }
  if (!any(Kind::Partial) && !any(Kind::After)) {
    give(!nested && llvm::any_of(op->getOperands(), [&](Value v) { return leavesLoop(v); }) ? Kind::After
                                                                                            : Kind::Fixed);
    return success();
  }
  if (nested) {
    inside.insert(op);
    give(Kind::Partial);
    if (!any(Kind::After) && isLinear(op))
      return success();
    for (Value operand : op->getOperands())
      if (Kind kind = of(operand); kind == Kind::Partial || kind == Kind::After)
        if (failed(needTotal(op, operand)))
          return failure();
    give(Kind::Fixed);
    return success();
  }
  if (!any(Kind::After) && !time.evaluation() && staysPending(op)) {
    inside.insert(op); // one sum accumulates instead of two
    give(Kind::Partial);
  } else {
    give(Kind::After);
  }
  return success();
}

/// A value that depends on no sample, and is computed in a loop that samples go through.
bool Kinds::leavesLoop(Value value) const {
  Operation *op = value.getDefiningOp();
  return op && isInside(op) && of(value) == Kind::Fixed && !settled.contains(value);
}

/// What stays a sum over passes at the top level, too: additions of such sums, negation, numbers times one, renames.
bool Kinds::staysPending(Operation *op) {
  auto rule = dyn_cast<AxisRule>(op);
  if (!rule || op->getNumResults() != 1)
    return false;
  auto partial = [&](Value v) { return of(v) == Kind::Partial; };
  switch (rule.pendingRule()) {
  case PendingRule::Add:
    return llvm::all_of(op->getOperands(), partial);
  case PendingRule::Through:
    return llvm::all_of(op->getOperands(), [&](Value v) { return partial(v) || isNumber(v); });
  case PendingRule::Resolve:
    return false;
  }
  return false;
}

/// Whether the operation is linear in its partial operands. Fixed operands that are added to them are marked: each pass
/// contributes a share.
bool Kinds::isLinear(Operation *op) {
  auto partial = [&](Value v) { return of(v) == Kind::Partial; };
  auto share = [&](unsigned first) {
    for (OpOperand &operand : op->getOpOperands().drop_front(first))
      shared.insert(&operand);
    return true;
  };
  if (auto map = dyn_cast<MapOp>(op)) {
    switch (map.getFunction()) {
    case Function::Neg:
    case Function::StopGradient:
      return true;
    case Function::Cast:
      return tensor(map.getResult()).isFloat();
    case Function::Add:
    case Function::Sub:
      return share(0);
    case Function::Mul:
      return llvm::count_if(op->getOperands(), partial) == 1;
    case Function::Div:
      return !partial(op->getOperand(1));
    case Function::Select:
      return !partial(op->getOperand(0)) && share(1);
    default:
      return false;
    }
  }
  if (auto reduce = dyn_cast<ReduceOp>(op))
    return reduce.getKind() == Reduction::Sum;
  if (isa<DotOp>(op))
    return llvm::count_if(op->getOperands(), partial) == 1;
  if (isa<ConcatOp>(op))
    return share(0);
  if (isa<GatherOp, ScatterAddOp>(op))
    return llvm::none_of(op->getOperands().drop_front(), partial);
  return isa<ExpandOp, RelabelOp, CumSumOp, PickOp, PlaceOp, SliceOp, PadOp>(op);
}

//===- loops
//--------------------------------------------------------------------------------------------------------------===//

LogicalResult Kinds::decideRepeat(RepeatOp op, bool nested) {
  bool batched = false;
  SmallVector<Value> incoming(op->getOperands());
  auto look = [&](ValueRange values) {
    for (Value v : values)
      batched |= hasBatch(v);
  };
  look(op->getOperands());
  look(op->getResults());
  op.getBody().walk([&](Operation *inner) {
    look(inner->getOperands());
    look(inner->getResults());
    for (Value operand : inner->getOperands())
      if (!op.getBody().isAncestor(operand.getParentRegion()))
        incoming.push_back(operand);
  });
  auto comes = [&](Kind kind) { return llvm::any_of(incoming, [&](Value v) { return of(v) == kind; }); };
  if (op.getAxis() == time.batchAxis)
    return refuse(op);
  if (!batched && !comes(Kind::Partial) && !comes(Kind::Sample)) {
    bool leaving = !nested && llvm::any_of(incoming, [&](Value v) { return leavesLoop(v); });
    Kind kind = comes(Kind::After) || leaving ? Kind::After : Kind::Fixed;
    if (kind == Kind::After && nested)
      return needTotal(op, *llvm::find_if(incoming, [&](Value v) { return of(v) == Kind::After; }));
    for (Value result : op.getResults())
      set(result, kind);
    op.getBody().walk([&](Operation *inner) {
      for (Value result : inner->getResults())
        set(result, kind);
    });
    return success();
  }
  if (!batched && !nested && !comes(Kind::Sample)) { // a loop over totals follows the passes
    for (Value result : op.getResults())
      set(result, Kind::After);
    return success();
  }

  inside.insert(op);
  for (auto [operand, argument] : llvm::zip(op->getOperands(), op.block()->getArguments())) {
    if (of(operand) == Kind::After && failed(needTotal(op, operand)))
      return failure();
    set(argument, of(operand));
  }
  YieldOp yield = op.yield();
  bool fine = true;
  for (bool more = true; more;) { // a carried value that a pass adds to is partial from the start
    fine = succeeded(decide(*op.block(), /*nested=*/true));
    more = false;
    for (auto [next, argument] : llvm::zip(yield.getCarried(), op.carriedArguments()))
      if (of(argument) == Kind::Fixed && of(next) != Kind::Fixed) {
        set(argument, of(next));
        more = true;
      }
  }
  if (!fine)
    return failure();
  unsigned n = op.getCarried().size();
  for (unsigned i = 0; i < n; ++i)
    if (of(op.carriedArguments()[i]) == Kind::Partial) {
      shared.insert(&op->getOpOperand(i));
      shared.insert(&yield->getOpOperand(i));
    }
  for (auto [argument, final] : llvm::zip(op.carriedArguments(), op.getFinals()))
    set(final, of(argument));
  for (auto [value, stack] : llvm::zip(yield.getStacked(), op.getStacks()))
    set(stack, of(value));
  for (auto [value, sum] : llvm::zip(yield.getSummed(), op.getSums()))
    set(sum, of(value));
  return success();
}

//===- what cannot be
//----------------------------------------------------------------------------------------------------===//

LogicalResult Kinds::refuse(Operation *op) {
  if (time.evaluation())
    return op->emitError()
           << "E0313: this needs all held-out samples at once, and evaluation takes them batch by batch";
  return op->emitError() << "E0313: this needs other samples of the step, which come in " << time.passes
                         << " micro batches; use one, unless it says local";
}

LogicalResult Kinds::checkAlongBatch(Operation *op) {
  StringRef batch = time.batchAxis;
  bool places = false; // particular samples
  if (auto pick = dyn_cast<PickOp>(op))
    places = pick.getAxis() == batch;
  else if (auto place = dyn_cast<PlaceOp>(op))
    places = place.getAxis() == batch;
  else if (auto gather = dyn_cast<GatherOp>(op))
    places = has(gather.getAxes(), batch);
  else if (auto scatter = dyn_cast<ScatterAddOp>(op))
    places = has(scatter.getAxes(), batch);
  else if (auto relabel = dyn_cast<RelabelOp>(op))
    for (ArrayAttr groups : {relabel.getFrom(), relabel.getTo()})
      for (auto group : groups.getAsRange<ArrayAttr>())
        places |= has(group, batch);
  auto rule = dyn_cast<AxisRule>(op);
  if (places || (rule && !op->hasAttr(kLocal) && rule.division(batch) != Division::Freely))
    return refuse(op);
  return success();
}

LogicalResult Kinds::needTotal(Operation *op, Value value) {
  Operation *source = value.getDefiningOp();
  if (time.evaluation() || !source || source->getParentOp() != step)
    return refuse(op);
  for (Operation *from : sources({value})) {
    bool parameter = false;
    from->walk([&](ReadOp read) {
      auto variable = SymbolTable::lookupNearestSymbolFrom<VariableOp>(read, read.getSourceAttr());
      parameter |= variable && variable.getKind() == VariableKind::Param;
    });
    if (parameter)
      return refuse(op);
  }
  early.insert(value);
  return success();
}

llvm::SetVector<Operation *> Kinds::sources(ArrayRef<Value> values) const {
  llvm::DenseSet<Operation *> found;
  SmallVector<Value> open(values);
  while (!open.empty()) {
    Value value = open.pop_back_val();
    Operation *op = value.getDefiningOp();
    if (!op || settled.contains(value))
      continue;
    op = step.getBody().front().findAncestorOpInBlock(*op);
    if (!op || !found.insert(op).second)
      continue;
    op->walk([&](Operation *inner) { llvm::append_range(open, inner->getOperands()); });
  }
  llvm::SetVector<Operation *> ordered;
  for (Operation &op : step.getBody().front())
    if (found.contains(&op))
      ordered.insert(&op);
  return ordered;
}
