#include "passes/microbatch/Dependence.h"

#include "passes/StaysPending.h"

using namespace mlir;
using namespace echelon;
using namespace echelon::ech;

LogicalResult Dependences::decide() {
  while (true) {
    dependences.clear();
    inside.clear();
    shared.clear();
    early.clear();
    cut.reset();
    const size_t known = ofPass.size();
    if (failed(decide(step.getBody().front(), /*nested=*/false)))
      return failure();
    if (known == ofPass.size())
      return success();
  }
}

LogicalResult Dependences::decide(Block &block, bool nested) {
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

ReduceOp Dependences::extreme(Value value) const {
  auto reduce = value.getDefiningOp<ReduceOp>();
  bool found = reduce && reduce.getKind() != Reduction::Sum && has(reduce.getOver(), time.batchAxis);
  return found ? reduce : ReduceOp();
}

void Dependences::set(Value value, Dependence kind) {
  dependences[value] = settled.contains(value)  ? Dependence::Invariant
                       : ofPass.contains(value) ? Dependence::PerSample
                                                : kind;
}

//===- one operation ---------------------------------------------------------------------------------------------===//

LogicalResult Dependences::decide(Operation *op, bool nested) {
  if (time.evaluation() && countsSamplesAgain(op))
    return refuse(op);
  auto batched = [&](ValueRange values) { return llvm::any_of(values, [&](Value v) { return hasBatch(v); }); };
  auto any = [&](Dependence kind) { return llvm::any_of(op->getOperands(), [&](Value v) { return of(v) == kind; }); };
  auto give = [&](Dependence whole) {
    for (Value result : op->getResults())
      set(result, hasBatch(result) ? Dependence::PerSample : whole);
  };
  if (batched(op->getOperands()) || batched(op->getResults())) {
    inside.insert(op);
    bool isExtreme = !nested && op->getNumResults() == 1 && extreme(op->getResult(0));
    give(op->hasAttr(kLocal) ? Dependence::PerSample
         : isExtreme         ? Dependence::AfterTotals
         : isOfPass(op)      ? Dependence::PerSample
                             : Dependence::PartialSum);
    if (!isExtreme && failed(checkAlongBatch(op)))
      return failure();
    for (Value operand : op->getOperands())
      if (Dependence kind = of(operand); kind == Dependence::PartialSum || kind == Dependence::AfterTotals)
        if (failed(needTotal(op, operand)))
          return failure();
    return success();
  }
  if (any(Dependence::PerSample)) { // statistics of this pass alone
    inside.insert(op);
    for (Value result : op->getResults())
      set(result, Dependence::PerSample);
    for (Value operand : op->getOperands())
      if (Dependence kind = of(operand); kind == Dependence::PartialSum || kind == Dependence::AfterTotals)
        if (failed(needTotal(op, operand)))
          return failure();
    return success();
  }
  if (!any(Dependence::PartialSum) && !any(Dependence::AfterTotals)) {
    give(!nested && llvm::any_of(op->getOperands(), [&](Value v) { return leavesLoop(v); }) ? Dependence::AfterTotals
                                                                                            : Dependence::Invariant);
    return success();
  }
  if (nested) {
    inside.insert(op);
    give(Dependence::PartialSum);
    if (!any(Dependence::AfterTotals) && isLinear(op))
      return success();
    SmallVector<Value> first, others; // with the totals that can be computed first, it may be linear in the others
    for (Value operand : op->getOperands())
      if (Dependence kind = of(operand); kind == Dependence::PartialSum || kind == Dependence::AfterTotals)
        (isKnownFirst(operand) ? first : others).push_back(operand);
    for (Value operand : first.empty() ? others : first)
      if (failed(needTotal(op, operand)))
        return failure();
    if (first.empty() || others.empty())
      give(first.empty() ? Dependence::AfterTotals : Dependence::Invariant);
    return success();
  }
  const bool isOfWorkers = op->hasAttr(kStaysPending) && op->getParentOfType<ModuleOp>()->hasAttr(kWorkers);
  if (!any(Dependence::AfterTotals) && !time.evaluation() && (staysPending(op) || (isOfWorkers && isLinear(op)))) {
    inside.insert(op); // one sum accumulates instead of two
    give(Dependence::PartialSum);
  } else {
    give(Dependence::AfterTotals);
  }
  return success();
}

/// A value that depends on no sample, and is computed in a loop that samples go through.
bool Dependences::leavesLoop(Value value) const {
  Operation *op = value.getDefiningOp();
  return op && isInside(op) && of(value) == Dependence::Invariant && !settled.contains(value);
}

/// A gradient's own rename follows the passes: what is renamed is added up where it lies.
static bool isRenameOfGradient(Operation *op) {
  return isa<RelabelOp>(op) && llvm::all_of(op->getUsers(), [](Operation *user) { return isa<GradientOp>(user); });
}

/// What stays a sum over passes at the top level, too: additions of such sums, negation, numbers times one, renames.
bool Dependences::staysPending(Operation *op) const {
  auto rule = dyn_cast<AxisRule>(op);
  if (!rule || op->getNumResults() != 1 || isRenameOfGradient(op))
    return false;
  auto partial = [&](Value v) { return of(v) == Dependence::PartialSum; };
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

/// Whether the operation is linear in its partial operands. Invariant operands that are added to them are marked: each
/// pass contributes a share.
bool Dependences::isLinear(Operation *op) {
  auto rule = dyn_cast<AxisRule>(op);
  if (!rule)
    return false;
  auto partial = llvm::map_to_vector(op->getOperands(), [&](Value v) { return of(v) == Dependence::PartialSum; });
  const Linearity linearity = rule.linearIn(partial);
  if (linearity.isLinear && linearity.sharedFrom >= 0)
    for (OpOperand &operand : op->getOpOperands().drop_front(linearity.sharedFrom))
      shared.insert(&operand);
  return linearity.isLinear;
}

//===- loops -----------------------------------------------------------------------------------------------------===//

LogicalResult Dependences::decideRepeat(RepeatOp op, bool nested) {
  if (op.getAxis() == time.batchAxis)
    return refuse(op);
  if (time.evaluation() && !nested) {
    bool fine = true;
    op->walk([&](Operation *inner) {
      if (countsSamplesAgain(inner))
        fine &= succeeded(refuse(inner));
    });
    if (!fine)
      return failure();
  }
  bool batched = false;
  SmallVector<Value> incoming(op->getOperands());
  auto look = [&](ValueRange values) { batched |= llvm::any_of(values, [&](Value v) { return hasBatch(v); }); };
  op->walk([&](Operation *inner) { // itself, too
    look(inner->getOperands());
    look(inner->getResults());
    for (Value operand : inner->getOperands())
      if (!op.getBody().isAncestor(operand.getParentRegion()))
        incoming.push_back(operand);
  });
  auto comes = [&](Dependence kind) { return llvm::any_of(incoming, [&](Value v) { return of(v) == kind; }); };
  if (!batched && !comes(Dependence::PerSample)) {
    if (!comes(Dependence::PartialSum))
      return decideAsOne(op, nested, incoming);
    if (!nested) { // a loop over totals follows the passes
      for (Value result : op.getResults())
        set(result, Dependence::AfterTotals);
      return success();
    }
  }
  return decideInside(op);
}

/// A loop that neither samples nor sums over them enter: all in it is of one kind.
LogicalResult Dependences::decideAsOne(RepeatOp op, bool nested, ArrayRef<Value> incoming) {
  const Value *total = llvm::find_if(incoming, [&](Value v) { return of(v) == Dependence::AfterTotals; });
  bool leaving = !nested && llvm::any_of(incoming, [&](Value v) { return leavesLoop(v); });
  Dependence kind = total != incoming.end() || leaving ? Dependence::AfterTotals : Dependence::Invariant;
  if (kind == Dependence::AfterTotals && nested) {
    if (failed(needTotal(op, *total)))
      return failure();
    kind = isKnownFirst(*total) ? Dependence::Invariant : Dependence::AfterTotals;
  }
  op->walk([&](Operation *inner) {
    for (Value result : inner->getResults())
      set(result, kind);
  });
  return success();
}

/// A loop that samples go through: what it carries and takes slices of has the dependences of what comes in, and what
/// it gives those of its body.
LogicalResult Dependences::decideInside(RepeatOp op) {
  inside.insert(op);
  for (auto [operand, argument] : llvm::zip(op->getOperands(), op.block()->getArguments())) {
    set(argument, of(operand));
    if (of(operand) != Dependence::AfterTotals || argument.getArgNumber() >= op.getCarried().size())
      continue; // who reads a slice of a total says so
    if (isKnownFirst(operand)) {
      if (failed(needTotal(op, operand)))
        return failure();
      set(argument, Dependence::Invariant);
    } else if (hasAllSamples()) {
      keepInPass(operand);
    } else {
      needCut(op, argument, /*before=*/false, op);
    }
  }
  YieldOp yield = op.yield();
  bool fine = true;
  for (bool more = true; more;) { // a carried value that a pass adds to is partial from the start
    fine = succeeded(decide(*op.block(), /*nested=*/true));
    more = false;
    for (auto [next, argument] : llvm::zip(yield.getCarried(), op.carriedArguments()))
      if ((of(argument) == Dependence::Invariant && of(next) != Dependence::Invariant) ||
          (of(argument) == Dependence::PartialSum && of(next) == Dependence::AfterTotals)) {
        set(argument, of(next));
        more = true;
      }
  }
  if (!fine)
    return failure();
  for (auto [i, argument] : llvm::enumerate(op.carriedArguments()))
    if (of(argument) == Dependence::PartialSum) {
      shared.insert(&op->getOpOperand(i));
      shared.insert(&yield->getOpOperand(i));
    }
  auto give = [&](auto from, ValueRange to) {
    for (auto [value, result] : llvm::zip(from, to))
      set(result, of(value));
  };
  give(op.carriedArguments(), op.getFinals());
  give(yield.getStacked(), op.getStacks());
  give(yield.getSummed(), op.getSums());
  return success();
}

//===- what cannot be --------------------------------------------------------------------------------------------===//

LogicalResult Dependences::refuse(Operation *op) {
  if (time.evaluation())
    return op->emitError()
           << "E0313: this needs all held-out samples at once, and evaluation takes them batch by "
              "batch; "
           << (op->getNumResults() == 1 && extreme(op->getResult(0))
                   ? "in a repeat, take a maximum or minimum over axes of one sample, and the mean of it"
                   : "leave the batch out of it");
  if (!time.policy.empty())
    return op->emitError() << "E0317: this needs other samples of the step, and under sync " << time.policy
                           << " each worker has a mini-batch of its own; "
                           << (isa<ech::NormalizeOp>(op) ? "`local = true` takes the statistics of the mini-batch"
                                                         : "leave the batch out of it, or sync every step");
  if (time.passes == 1)
    return op->emitError() << "internal error, please report: this needs other samples of a step that has one pass";
  return op->emitError() << "E0313: this needs other samples of the step, which come in " << time.passes
                         << " micro batches; use one"
                         << (isa<ech::NormalizeOp>(op) ? ", or `local = true` for statistics of each micro batch" : "");
}

bool Dependences::countsSamplesAgain(Operation *op) const {
  if (!time.likeBatch)
    return false;
  auto has = [](ValueRange values, StringRef axis) {
    return llvm::any_of(values, [&](Value v) { return tensor(v).has(axis); });
  };
  return llvm::any_of(time.likeBatch.getAsRange<StringAttr>(),
                      [&](StringAttr axis) { return has(op->getResults(), axis) && !has(op->getOperands(), axis); });
}

/// Whether it takes other samples, and not one by one or as a sum.
bool Dependences::takesOtherSamples(Operation *op) const {
  auto rule = dyn_cast<AxisRule>(op);
  return rule && ((!op->hasAttr(kLocal) && rule.division(time.batchAxis) != Division::Freely) ||
                  rule.takesPositions(time.batchAxis));
}

/// Whether it takes other samples where one pass has all of them: without micro batches, in the stages of a pipeline.
bool Dependences::isOfPass(Operation *op) const { return hasAllSamples() && takesOtherSamples(op); }

LogicalResult Dependences::checkAlongBatch(Operation *op) {
  return takesOtherSamples(op) && !isOfPass(op) ? refuse(op) : success();
}

/// What the argument of a loop is a slice of.
static Value sliced(Value value) {
  auto argument = dyn_cast<BlockArgument>(value);
  auto loop = argument ? dyn_cast<RepeatOp>(argument.getOwner()->getParentOp()) : RepeatOp();
  if (!loop || argument.getArgNumber() < loop.getCarried().size())
    return {};
  return loop.getSlices()[argument.getArgNumber() - loop.getCarried().size()];
}

LogicalResult Dependences::needTotal(Operation *op, Value value) {
  if (isKnownFirst(value)) {
    while (Value whole = sliced(value))
      value = whole;
    Operation *source = value.getDefiningOp();
    if (!source || source->getParentOp() != step) {
      needCut(cast<RepeatOp>(value.getParentBlock()->getParentOp()), value, /*before=*/true, op);
      return success();
    }
    llvm::SetVector<Operation *> from = sources({value});
    for (Operation *one : from) { // loops on the way that also do other things give what is needed apart
      auto loop = dyn_cast<RepeatOp>(one);
      if (!loop || llvm::none_of(loop.getResults(), [&](Value v) { return comesFromParameters(v); }))
        continue;
      for (Value result : loop.getResults())
        if (!comesFromParameters(result) &&
            (result == value || llvm::any_of(result.getUsers(), [&](Operation *user) {
               return from.contains(step.getBody().front().findAncestorOpInBlock(*user));
             })))
          needCut(loop, result, /*before=*/true, op);
    }
    early.insert(value);
    return success();
  }
  if (hasAllSamples()) {
    keepInPass(value);
    return success();
  }
  if (touchesSamples(op))
    return refuse(op);
  for (auto loop = op->getParentOfType<RepeatOp>(); loop; loop = loop->getParentOfType<RepeatOp>()) {
    Value whole = value.getParentBlock() == loop.block() ? sliced(value) : value;
    if (!whole && of(value) == Dependence::AfterTotals)
      return success();                   // what it is made of is needed already
    if (!whole || touchesSamples(loop)) { // it is in this loop, or this loop is not one over totals alone
      needCut(loop, value, /*before=*/false, op);
      return success();
    }
    value = whole;
  }
  return refuse(op);
}

void Dependences::needCut(RepeatOp loop, Value value, bool before, Operation *op) {
  auto depth = [](Operation *loop) {
    int depth = 0;
    while ((loop = loop->getParentOp()))
      ++depth;
    return depth;
  };
  if (!cut || std::pair(before, depth(loop)) > std::pair(cut->before, depth(cut->loop)))
    cut = Cut{loop, value, before, op};
}

void Dependences::keepInPass(Value value) {
  while (Value whole = of(value) == Dependence::AfterTotals ? sliced(value) : Value())
    value = whole;
  Operation *op = value.getDefiningOp();
  if (of(value) != Dependence::AfterTotals || !op || isInside(op)) {
    ofPass.insert(value);
    return;
  }
  op->walk([&](Operation *inner) { // it is outside of the pass, and follows what it is made of into it
    for (Value operand : inner->getOperands())
      if (Dependence kind = of(operand); !op->isAncestor(operand.getParentBlock()->getParentOp()) &&
                                         (kind == Dependence::PartialSum || kind == Dependence::AfterTotals))
        keepInPass(operand);
  });
}

bool Dependences::touchesSamples(Operation *op) const {
  bool touches = false;
  auto look = [&](Value v) { touches |= hasBatch(v) || of(v) == Dependence::PerSample; };
  op->walk([&](Operation *inner) {
    llvm::for_each(inner->getOperands(), look);
    llvm::for_each(inner->getResults(), look);
  });
  return touches;
}

bool Dependences::comesFromParameters(Value start) const {
  llvm::DenseSet<Value> seen;
  SmallVector<Value> open{start};
  while (!open.empty()) {
    Value value = open.pop_back_val();
    if (!seen.insert(value).second || settled.contains(value))
      continue;
    auto carried = [&](RepeatOp loop, unsigned i) {
      open.push_back(loop.getCarried()[i]);
      open.push_back(loop.yield().getCarried()[i]);
    };
    if (auto argument = dyn_cast<BlockArgument>(value)) {
      if (Value whole = sliced(value))
        open.push_back(whole);
      else if (auto loop = dyn_cast<RepeatOp>(argument.getOwner()->getParentOp()))
        carried(loop, argument.getArgNumber());
      continue;
    }
    Operation *op = value.getDefiningOp();
    if (auto loop = dyn_cast<RepeatOp>(op)) {
      unsigned i = cast<OpResult>(value).getResultNumber(), finals = loop.getFinals().size();
      if (i < finals)
        carried(loop, i);
      else // the yield's operands are in the order of the results
        open.push_back(loop.yield()->getOperand(i));
    } else if (auto read = dyn_cast<ReadOp>(op)) {
      auto variable = SymbolTable::lookupNearestSymbolFrom<VariableOp>(read, read.getSourceAttr());
      if (variable && (variable.getKind() == VariableKind::Param || variable.getKind() == VariableKind::Copy))
        return true;
    } else {
      llvm::append_range(open, op->getOperands());
    }
  }
  return false;
}

llvm::SetVector<Operation *> Dependences::sources(ArrayRef<Value> values) const {
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
