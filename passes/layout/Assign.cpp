// The walk over a step: each operation takes its operands in the states that the list rule says.
#include "passes/layout/Assign.h"
#include "ir/run/Run.h"
#include "passes/Moments.h"
#include "passes/Passes.h"
#include "passes/Phase.h"

using namespace mlir;
using namespace echelon;
using namespace echelon::dist;
using namespace echelon::layout;

Assign::Assign(ModuleOp module, MeshAttr mesh, const Stores &stores, Clauses &clauses)
    : module(module), symbols(module), mesh(mesh), whole(wholeState(mesh)), stores(stores), clauses(clauses) {}

/// The iterations of a loop are divided over ranks where they are the stages of a pipeline: each takes what the one
/// before hands on, in a pass through the model.
void Assign::checkStages(ech::RepeatOp op) {
  const int m = dist::stagesOf(mesh, op.getAxis());
  if (m < 0)
    return;
  auto outer = dyn_cast<ech::RepeatOp>(op->getParentOp());
  const bool isOfPass = outer && outer.getTime() && isa<ech::StepOp>(outer->getParentOp());
  const StringRef axis = op.getAxis();
  const std::string cannot = "cannot split " + axis.str() + " over " + mesh.nameOf(m).str() + ": ";
  if (op.getAlong())
    refuse(op, cannot + "repeat along " + axis + " runs over the whole axis",
           clauses.place(m, op.getAxisAttr(), op.getLoc()));
  else if (outer && !outer.getTime())
    refuse(op,
           "E0318: " + cannot + "its repeat is inside of another one, along " + outer.getAxis() +
               "; stages are iterations of the outermost repeat",
           clauses.place(m, op.getAxisAttr(), op.getLoc()));
  else if (!isOfPass && !op.getCarried().empty())
    refuse(op,
           "E0318: " + cannot +
               "what its repeat carries is made of no sample, or of totals over all of them; stages hand on what is "
               "made of samples as they come",
           clauses.place(m, op.getAxisAttr(), op.getLoc()));
}

/// The mesh axis whose stages a pass of the model runs through; -1 where there are none.
int Assign::stagesInside(ech::RepeatOp pass) {
  int stages = -1;
  if (pass.getTime())
    pass.walk([&](ech::RepeatOp loop) { stages = std::max(stages, dist::stagesOf(mesh, loop.getAxis())); });
  return stages;
}

bool Assign::run(ech::StepOp step) {
  step.walk([&](ech::RepeatOp op) {
    if (!stopped)
      checkStages(op);
  });
  if (stopped)
    return false;
  labelUpdate(step);
  labelSums();
  block(step.getBody().front());
  if (failed)
    return false;
  // Free operations were made again for whoever asked, and slices of free values became slices of what was asked.
  auto eraseFree = [&] {
    for (Operation *&op : llvm::reverse(freeOperations))
      if (op && op->use_empty()) {
        op->erase();
        op = nullptr;
      }
  };
  eraseFree();
  for (auto &[loop, slices] : llvm::reverse(loops)) { // inner loops first
    for (unsigned i = slices; i-- > 0;)
      if (Value argument = loop.sliceArguments()[i]; isFree(argument)) {
        free.remove(argument);
        loop.block()->eraseArgument(cast<BlockArgument>(argument).getArgNumber());
        loop.getSlicesMutable().erase(i);
      }
    eraseFree();
  }
  return true;
}

StateAttr Assign::stored(ech::VariableOp variable) {
  auto type = cast<Tensor>(variable.getType());
  const bool isOfUpdate = variable.getKind() == ech::VariableKind::Optimizer ||
                          variable.getKind() == ech::VariableKind::Average ||
                          variable.getKind() == ech::VariableKind::HandedIn;
  if (isOfUpdate)
    return updated(variable);
  const bool isParam = variable.getKind() == ech::VariableKind::Param || variable.getKind() == ech::VariableKind::Copy;
  return isParam ? stores.ofParam(type, mesh) : ownState(type, mesh);
}
StateAttr Assign::updated(ech::VariableOp variable) {
  auto type = cast<Tensor>(variable.getType());
  if (variable.getKind() == ech::VariableKind::State || variable.getKind() == ech::VariableKind::Compression)
    return ownState(type, mesh);
  return variable.getKind() == ech::VariableKind::Copy ? stored(variable) : stores.ofUpdate(type, mesh);
}

void Assign::refuse(Operation *op, const Twine &what, Location where) {
  failed = stopped = true;
  emitError(where) << what;
}

/// A parameter's gradient, its moments and its new value are element-wise over one set of axes: from each write back
/// to what enters the update. Sums of such values, one for each index of the parameter's repeats, and what is made of
/// them, are of the update, too, unless the cut is flat, where no sum over some of the axes is one of what lies on a
/// rank: then what is summed is whole.
void Assign::labelUpdate(ech::StepOp step) {
  if (stores.isEmpty())
    return;
  auto isUpdate = [](Operation *op) { return op && isOfUpdate(op); };
  llvm::DenseSet<Operation *> seen;
  step.walk([&](Operation *op) {
    if (auto gradient = dyn_cast<ech::GradientOp>(op))
      if (auto variable = variableOf(gradient.getParameter())) {
        gradientCut.try_emplace(gradient.getValue(), updated(variable));
        gradientOf.try_emplace(gradient.getValue(), variable);
      }
    auto write = dyn_cast<ech::WriteOp>(op);
    auto variable = write ? variableOf(write.getTarget()) : ech::VariableOp();
    if (!variable || variable.getKind() == ech::VariableKind::State ||
        variable.getKind() == ech::VariableKind::Compression || variable.getKind() == ech::VariableKind::Copy)
      return;
    Tensor type = ech::tensor(write.getValue());
    StateAttr cut = updated(variable);
    const bool isParam = variable.getKind() == ech::VariableKind::Param;
    const ech::VariableOp parameter = isParam ? variable : variableOf(momentOf(variable).second);
    auto sameAxes = [&](Value v) {
      Tensor other = ech::tensor(v);
      return other.rank() == type.rank() && llvm::all_of(other.names(), [&](StringRef a) { return type.has(a); });
    };
    const bool isFlat = llvm::any_of(cut.getEntries(), [](const Entry &entry) { return entry.hold == Hold::Flat; });
    SmallVector<Value> work{write.getValue()};
    while (!work.empty()) {
      Value x = work.pop_back_val();
      Operation *def = x.getDefiningOp();
      if (!sameAxes(x)) {
        const bool isOfSums = !isFlat && isUpdate(def) && ech::tensor(x).rank() > 0;
        if (isOfSums && isa<ech::MapOp, ech::ReduceOp>(def) && updateCut.try_emplace(def, cut).second)
          llvm::append_range(work, def->getOperands());
        continue;
      }
      const bool isHandedIn = isa_and_nonnull<ech::ReduceOp>(def); // a sum over workers: a gradient of the update's own
      if (!isUpdate(def) || isHandedIn) {
        if (!isa_and_nonnull<ech::ReadOp>(def))
          gradientCut.try_emplace(x, cut);
        if (parameter)
          gradientOf.try_emplace(x, parameter);
        if (auto each = isHandedIn ? def->getOperand(0).getDefiningOp<ech::PerWorkerOp>() : ech::PerWorkerOp();
            each && each.getApart()) { // what it is made of lies so, too
          if (!isFlat)
            updateCut.try_emplace(def, cut);
          work.push_back(each.getOperand());
        }
      } else if (isa<ech::MapOp, ech::ExpandOp>(def) && seen.insert(def).second) {
        const bool takesSums =
            llvm::any_of(def->getOperands(), [&](Value v) { return ech::tensor(v).rank() > 0 && !sameAxes(v); });
        if (!isFlat || !takesSums)
          updateCut.try_emplace(def, cut);
        llvm::append_range(work, def->getOperands());
      }
    }
  });
}

void Assign::labelSums() {
  SmallVector<std::pair<Value, StateAttr>> open;
  for (auto [gradient, cut] : gradientCut)
    open.push_back({gradient, cut});
  while (!open.empty()) {
    auto [x, cut] = open.pop_back_val();
    auto result = dyn_cast<OpResult>(x);
    auto loop = result ? dyn_cast<ech::RepeatOp>(result.getOwner()) : ech::RepeatOp();
    if (!loop || llvm::is_contained(loop.getFinals(), x))
      continue;
    const bool isStack = llvm::is_contained(loop.getStacks(), x);
    StateAttr each = isStack ? stateOfSlice(ech::tensor(x).withState(cut), loop.getAxisAttr()) : cut;
    Value yielded = loop.yield()->getOperand(result.getResultNumber());
    if (!each || !sumCut.try_emplace(yielded, each).second)
      continue;
    open.push_back({yielded, each});
    if (auto parameter = gradientOf.lookup(x))
      gradientOf.try_emplace(yielded, parameter);
  }
}

void Assign::block(Block &block) {
  SmallVector<Operation *> original;
  for (Operation &op : block)
    original.push_back(&op);
  for (Operation *op : original)
    if (!stopped) // what does not divide is told of every operation; what is refused leaves values without a state
      operation(op);
}

void Assign::operation(Operation *op) {
  auto read = dyn_cast<ech::ReadOp>(op);
  ech::VariableOp variable = read ? variableOf(read.getSource()) : ech::VariableOp();
  // A variable is never free, and freedom() would look through all names.
  if (auto rule = dyn_cast<ech::AxisRule>(op); rule && !variable) {
    ech::Freedom freedom = rule.freedom();
    if (freedom == ech::Freedom::Source || (freedom == ech::Freedom::IfOperandsAre && op->getNumOperands() > 0 &&
                                            llvm::all_of(op->getOperands(), [&](Value v) { return isFree(v); }))) {
      free.insert(op->result_begin(), op->result_end());
      freeOperations.push_back(op);
      return;
    }
  }
  if (read) {
    StateAttr state = variable ? stored(variable) : own(read.getValue());
    failed |= clauses.complain(ech::tensor(read.getValue()), state, op);
    setState(read.getValue(), state);
  } else if (auto write = dyn_cast<ech::WriteOp>(op)) {
    ech::VariableOp variable = variableOf(write.getTarget());
    StateAttr computed = variable ? updated(variable) : own(write.getValue());
    StateAttr state = variable ? stored(variable) : computed;
    write.getValueMutable().assign(need(write.getValue(), state, op, computed));
  } else if (auto gradient = dyn_cast<ech::GradientOp>(op)) {
    ech::VariableOp variable = variableOf(gradient.getParameter());
    StateAttr state = variable ? updated(variable) : own(gradient.getValue());
    gradient.getValueMutable().assign(need(gradient.getValue(), state, op, state));
  } else if (auto report = dyn_cast<ech::ReportOp>(op)) {
    report.getValueMutable().assign(need(report.getValue(), whole, op));
  } else if (auto loop = dyn_cast<ech::RepeatOp>(op)) {
    repeat(loop);
  } else if (auto end = dyn_cast<ech::YieldOp>(op)) {
    yield(end);
  } else if (auto norm = dyn_cast<ech::GlobalNormOp>(op)) {
    globalNorm(norm);
  } else if (auto each = dyn_cast<ech::PerWorkerOp>(op)) {
    perWorker(each);
  } else if (auto handed = dyn_cast<ech::HandInOp>(op)) {
    handIn(handed);
  } else if (auto names = dyn_cast<ech::RelabelOp>(op); names && !isReorder(op)) {
    relabel(names);
  } else if (isa<ech::AxisRule>(op)) {
    ordinary(op);
  } else {
    refuse(op, "cannot lay out " + op->getName().getStringRef(), op->getLoc());
  }
}

static bool isNarrowing(ech::MapOp op) {
  return op.getFunction() == ech::Function::Cast &&
         ech::tensor(op.getResult()).getElement().getIntOrFloatBitWidth() <
             ech::tensor(op.getOperand(0)).getElement().getIntOrFloatBitWidth();
}

/// Marks attention whose keys and values go round, where a clause says so.
void Assign::sendRound(Operation *attention) {
  auto over = module->getAttrOfType<ArrayAttr>(kRing);
  SmallVector<int> rings = over ? ringsOf(attention, over, mesh) : SmallVector<int>();
  if (rings.empty())
    return;
  if (rings.size() > 1)
    return refuse(attention,
                  "E0601: keys and values that go round " + mesh.nameOf(rings[0]) + " and " + mesh.nameOf(rings[1]) +
                      " are not built yet; say `with ring` over one of the two, and they are gathered over the other",
                  clauses.ringPlace(rings[1], attention->getLoc()));
  for (Value v : attention->getOperands())
    for (StringRef axis : ech::tensor(v).names()) {
      const Entry entry = entryInRing(attention, v, rings[0], mesh);
      if (entry.axis && entry.axis == axis &&
          isPadded(ech::tensor(v).withState(whole.with(rings[0], entry)), axis, mesh))
        return refuse(attention,
                      "E0409: ranks send blocks of keys that are of equal size, and " + axis + " = " +
                          Twine(ech::tensor(v).sizeOf(axis)) + " is padded over " + mesh.nameOf(rings[0]) + " = " +
                          Twine(mesh.sizeOf(rings[0])) + "; leave `with ring` out, or make it a multiple of " +
                          Twine(mesh.sizeOf(rings[0])),
                      clauses.ringPlace(rings[0], attention->getLoc()));
    }
  attention->setAttr(kRing, StringAttr::get(module.getContext(), mesh.nameOf(rings[0])));
  attention->setAttr(ech::kWhy, StringAttr::get(module.getContext(), clauses.whyRing(rings[0], attention)));
}

void Assign::ordinary(Operation *op) {
  if (isa<ech::AttentionOp, ech::AttentionGradOp>(op))
    sendRound(op);
  if (stopped)
    return;
  SmallVector<StateAttr> states;
  for (Value operand : op->getOperands())
    states.push_back(stateNow(operand));
  Decision decision;
  const bool isOnCut = states.size() == 1 && states[0] && isCut(states[0]);
  if (isReorder(op)) { // storage only: the value stays where it is, but for rows of numbers in the order of storage
    StateAttr state =
        flatCuts(ech::tensor(op->getOperand(0)).withState(states[0])).empty() ? states[0] : withoutCuts(states[0]);
    decision.operands = decision.results = {state};
  } else if (auto map = dyn_cast<ech::MapOp>(op); map && isOnCut && isNarrowing(map) && !updateCut.contains(op)) {
    decision.operands = decision.results = {states[0]}; // rounded before it is gathered, it travels in fewer bytes
  } else {
    if (!updateCut.contains(op)) // what is stored in parts takes part as it is used, whole
      for (StateAttr &state : states)
        state = state ? withoutCuts(state) : state;
    decision = decide(op, states, mesh, updateCut.lookup(op));
    clauses.warnOfGathers(op, states, decision);
  }
  StateAttr cut = updateCut.lookup(op);
  for (OpOperand &operand : op->getOpOperands()) {
    StateAttr resolveInto = cut && gradientCut.count(operand.get()) ? cut : StateAttr();
    Value x = need(operand.get(), decision.operands[operand.getOperandNumber()], op, resolveInto);
    operand.set(masked(x, operand));
  }
  for (auto [result, state] : llvm::zip(op->getResults(), decision.results)) {
    failed |= clauses.complain(ech::tensor(result), state, op);
    setState(result, state);
  }
  if (!decision.inside.empty()) {
    SmallVector<StringRef> names;
    for (int m : decision.inside)
      names.push_back(mesh.nameOf(m));
    op->setAttr(kInside, Builder(op).getStrArrayAttr(names));
    op->setAttr(ech::kWhy, StringAttr::get(op->getContext(), clauses.whyInside(decision.divided, decision.inside, op)));
  }
}

/// The gradients in their update state; over a mesh axis that splits any of them, one that is whole counts at
/// coordinate 0 alone.
void Assign::globalNorm(ech::GlobalNormOp op) {
  if (auto paths = op->getAttrOfType<ArrayAttr>(kParameters))
    for (auto [gradient, path] : llvm::zip(op.getOperands(), paths.getAsRange<StringAttr>()))
      if (auto parameter = variableOf(path))
        parametersOf[gradient].push_back(parameter);
  llvm::SmallSetVector<int, 4> split;
  SmallVector<StringAttr> along(mesh.size()); // the axis whose clause splits a gradient; none: `store` does
  for (OpOperand &operand : op->getOpOperands()) {
    StateAttr to = gradientCut.lookup(operand.get()), state = stateNow(operand.get());
    if (!to) { // what the update made stays as it is
      to = own(operand.get());
      for (int m = 0; state && m < mesh.size(); ++m)
        if (state[m].hold != Hold::Sum)
          to = to.with(m, state[m]);
    }
    operand.set(masked(need(operand.get(), to, op, to), operand));
    for (int m = 0; m < mesh.size(); ++m)
      if (to[m].isPart()) {
        split.insert(m);
        if (to[m].hold == Hold::Split && !along[m])
          along[m] = to[m].axis;
      }
  }
  setState(op.getResult(), whole);
  SmallVector<int> inside(split.takeVector());
  if (inside.empty())
    return;
  llvm::sort(inside);
  SmallVector<StringRef> names;
  for (int m : inside)
    names.push_back(mesh.nameOf(m));
  op->setAttr(kInside, Builder(op).getStrArrayAttr(names));
  op->setAttr(ech::kWhy, StringAttr::get(op->getContext(), clauses.whyInside(along, inside, op)));
}

/// Over the workers' mesh axes the sum is pending, and each rank's part of it is its worker's; over others it is whole.
/// What is apart is whole on each worker's ranks; what the workers of a sync policy have is so over their axes.
void Assign::perWorker(ech::PerWorkerOp op) {
  const StringAttr axis = op.workers().name;
  StateAttr part = own(op.getResult()), sum = part;
  if (StateAttr now = op.getApart() && !isFree(op.getOperand()) ? stateNow(op.getOperand()) : StateAttr())
    for (int m = 0; m < mesh.size(); ++m) // a worker's ranks keep it as they have it
      if (part[m].axis != axis && now[m].hold != Hold::Flat && now[m].hold != Hold::Sum)
        part = sum = sum.with(m, now[m]);
  auto policy = echelon::run::only<echelon::run::SyncOp>(op->getParentOfType<ModuleOp>());
  for (int m = 0; m < mesh.size(); ++m)
    if (part[m].axis == axis)
      sum = sum.with(m,
                     op.getApart() || (policy && ech::has(policy.getOver(), mesh.nameOf(m))) ? Hold::Whole : Hold::Sum);
  op.getOperandMutable().assign(need(op.getOperand(), sum, op, sum));
  setState(op.getResult(), part);
}

/// What is split over workers becomes whole, all else stays.
void Assign::handIn(ech::HandInOp op) {
  StateAttr all = isFree(op.getOperand()) ? own(op.getOperand()) : stateNow(op.getOperand());
  const StringAttr axis = ech::tensor(op.getOperand()).getAxes().front().name;
  for (int m = 0; m < mesh.size(); ++m)
    if (all[m].axis == axis || all[m].hold == Hold::Sum)
      all = all.with(m, Hold::Whole);
  op.getOperandMutable().assign(need(op.getOperand(), all, op, all));
  setState(op.getResult(), all);
}

/// The operand comes in whatever state it has, the result is in the new names' own state; the conversion is on
/// the side where the pieces are pieces.
void Assign::relabel(ech::RelabelOp op) {
  Value x = op.getOperand();
  Tensor from = ech::tensor(x), to = ech::tensor(op.getResult());
  StateAttr state = stateNow(x), target = own(op.getResult());
  for (int m = 0; m < mesh.size(); ++m)
    if (state[m].hold == Hold::Sum)
      target = target.with(m, Hold::Sum);
  auto forward = renameState(state, from, to, op.getFrom(), op.getTo(), mesh);
  auto backward = renameState(target, to, from, op.getTo(), op.getFrom(), mesh);
  StateAttr before = state;
  for (int m = 0; m < mesh.size(); ++m)
    if (!forward[m])
      before = backward[m] ? before.with(m, *backward[m]) : before.with(m, Hold::Whole);
  auto after = renameState(before, from, to, op.getFrom(), op.getTo(), mesh);
  if (mlir::failed(checkState(from, before, mesh)) || !llvm::all_of(after, [](auto &e) { return e.has_value(); })) {
    before = state; // mixtures that do not fit: whole wherever the state itself does not go through
    for (int m = 0; m < mesh.size(); ++m)
      if (!forward[m])
        before = before.with(m, Hold::Whole);
    after = renameState(before, from, to, op.getFrom(), op.getTo(), mesh);
  }
  StateAttr renamed = whole;
  for (int m = 0; m < mesh.size(); ++m)
    renamed = renamed.with(m, after[m].value_or(whole[m]));
  op.getOperandMutable().assign(need(x, before, op));
  setState(op.getResult(), renamed);
  failed |= clauses.complain(to, target, op);
  if (renamed == target)
    return;
  Value result = resolved[op.getResult()] = convert(op.getResult(), target, op, op, useOf(op.getResult(), op));
  result.getDefiningOp()->moveAfter(op);
}

void Assign::repeat(ech::RepeatOp op) {
  for (auto [operand, argument] : llvm::zip(op.getCarriedMutable(), op.carriedArguments())) {
    StateAttr state = own(argument);
    operand.set(need(operand.get(), state, op));
    setState(argument, state);
  }
  auto pass = dyn_cast<ech::RepeatOp>(op->getParentOp());
  const int around = pass ? stagesInside(pass) : -1;
  unsigned slices = op.getSlices().size();
  loops.push_back({op, slices});
  for (unsigned i = 0; i < slices; ++i) {
    Value argument = op.sliceArguments()[i];
    OpOperand &operand = op.getSlicesMutable()[i];
    if (isFree(operand.get())) {
      free.insert(argument);
      slicesOfFree[argument] = op;
      continue;
    }
    Value x = now(operand.get());
    auto each = [&] { return stateOfSlice(ech::tensor(x), op.getAxisAttr()); };
    if (!each())
      x = need(operand.get(), withoutCuts(stateOf(x)), op);
    if (around >= 0 && stateOf(x)[around].hold == Hold::Sum) // one stage alone may do this loop: no message is in it
      x = need(operand.get(), stateOf(x).with(around, Hold::Whole), op);
    operand.set(x);
    setState(argument, each());
  }
  block(*op.block());
  if (stopped)
    return;
  for (auto [value, result] : llvm::zip(op.yield().getCarried(), op.getFinals()))
    setState(result, stateOf(value));
  const int stages = dist::stagesOf(mesh, op.getAxis());
  for (auto [value, result] : llvm::zip(op.yield().getSummed(), op.getSums())) // each stage has added up its own
    setState(result, stages < 0 ? stateOf(value) : stateOf(value).with(stages, Hold::Sum));
  for (auto [value, result] : llvm::zip(op.yield().getStacked(), op.getStacks()))
    setState(result, stateOfStack(stateOf(value), op.getAxisAttr(), mesh));
}

void Assign::yield(ech::YieldOp op) {
  auto as = [&](OpOperand &operand, StateAttr state) { operand.set(need(operand.get(), state, op)); };
  for (OpOperand &operand : op.getCarriedMutable())
    as(operand, own(operand.get()));
  auto loop = cast<ech::RepeatOp>(op->getParentOp());
  const int stages = stagesInside(loop);
  // stacked and summed values stay as they are, but for gradients that are stored in parts, and for what one stage of a
  // pipeline has alone
  auto asSum = [&](OpOperand &operand, StateAttr ofFree) {
    Value x = operand.get();
    StateAttr state = isFree(x) ? ofFree : stateNow(x);
    if (StateAttr cut = sumCut.lookup(x); cut && !isFree(x))
      for (int m : stores.gradients)
        if (cut[m].isCut())
          state = state.with(m, cut[m]);
    if (stages >= 0 && state[stages].hold == Hold::Whole)
      state = state.with(stages, Hold::Sum);
    operand.set(need(x, state, op, state));
  };
  for (OpOperand &operand : op.getStackedMutable())
    asSum(operand, isFree(operand.get()) ? own(operand.get()) : StateAttr());
  for (OpOperand &operand : op.getSummedMutable())
    asSum(operand, whole);
}
