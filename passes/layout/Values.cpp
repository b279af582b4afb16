// Values in the states that are asked for: conversions, shared where they can be, and free values made again.
#include "ir/ech/Reverse.h"
#include "passes/Phase.h"
#include "passes/layout/Assign.h"

using namespace mlir;
using namespace echelon;
using namespace echelon::dist;
using namespace echelon::layout;

static unsigned sliceOf(ech::RepeatOp loop, Value argument) {
  return cast<BlockArgument>(argument).getArgNumber() - loop.getCarried().size();
}

Value Assign::now(Value x) const {
  auto it = resolved.find(x);
  return it == resolved.end() ? x : it->second;
}
void Assign::setState(Value x, StateAttr state) { x.setType(ech::tensor(x).withState(state)); }

Assign::Use Assign::useOf(Value x, Operation *user) {
  if (auto parameter = isa<ech::YieldOp>(user) ? gradientOf.lookup(x) : ech::VariableOp())
    return {gradientInSource(parameter), ech::placeOf(parameter.getLoc())};
  auto parameters = parametersOf.find(x);
  if (parameters == parametersOf.end() || !isOfUpdate(user))
    return {nameInSource(user), user->getLoc()};
  return {gradientInSource(parameters->second), ech::placeOf(parameters->second.front().getLoc())};
}

Value Assign::convert(Value x, StateAttr to, Operation *anchor, Operation *user, const Use &use) {
  failed |= clauses.complain(ech::tensor(x), to, user);
  OpBuilder builder(anchor);
  auto result = ech::tensor(x).withState(to);
  auto op =
      ConvertOp::create(builder, use.place, result, x, builder.getStringAttr(clauses.why(stateOf(x), to, use.text)));
  copyPhase(anchor, op);
  return op;
}

/// Where a value from outside the loops around its user is converted: outside too. What is stored in parts is put
/// together for one pass through the model, and is not whole from one micro batch to the next.
Operation *Assign::anchorOf(Value x, Operation *user) {
  Operation *anchor = x.getParentBlock()->findAncestorOpInBlock(*user);
  while (isCut(stateOf(now(x)))) {
    auto loop = dyn_cast<ech::RepeatOp>(anchor);
    if (!loop || !loop.getTime() || anchor == user)
      break;
    anchor = loop.block()->findAncestorOpInBlock(*user);
  }
  return anchor;
}

Value Assign::need(Value x, StateAttr to, Operation *user, StateAttr ownState) {
  if (isFree(x)) {
    failed |= clauses.complain(ech::tensor(x), to, user);
    return produce(x, to, user);
  }
  Value current = now(x);
  Operation *anchor = anchorOf(x, user);
  const Use use = useOf(x, user);
  StateAttr state = stateOf(current), into = ownState ? ownState : own(x), middle = state, pending = to;
  for (int m = 0; m < mesh.size(); ++m)
    if (state[m].hold == Hold::Sum && to[m].hold != Hold::Sum) {
      middle = middle.with(m, into[m]);
      pending = pending.with(m, state[m]);
    }
  if (middle != state && into == to && pending != state && mlir::failed(checkState(ech::tensor(x), middle, mesh))) {
    // the pieces that it lies in now do not divide further, those asked for do: it moves first, and is summed then
    current = resolved[x] = convert(current, pending, anchor, user, use);
    state = pending;
    middle = to;
  }
  if (middle != state) // once, for this and later users
    current = resolved[x] = convert(current, middle, anchor, user, use);
  if (middle == to)
    return current;
  Value &known = shared[{current, to, phaseOf(anchor), anchor->getBlock()}];
  if (!known)
    known = convert(current, to, anchor, user, use);
  return known;
}

/// Whether a value is 0 where a stage of a pipeline has fewer iterations than the largest: a repeat leaves 0 in what
/// its iterations stack up (passes/lower/Repeats.cpp). So are sums of such values, and products and quotients with what
/// is the same for all iterations; anything may lie there of other factors and divisors, 0 / 0 is no number.
static bool isZeroBehindStage(Value x, StringRef axis) {
  Operation *def = x.getDefiningOp();
  auto isZero = [&](Value v) { return isZeroBehindStage(v, axis); };
  auto isSameForAll = [&](Value v) { return !ech::tensor(v).has(axis); };
  if (auto loop = dyn_cast_or_null<ech::RepeatOp>(def)) {
    const auto stack = llvm::find(loop.getStacks(), x), sum = llvm::find(loop.getSums(), x);
    if (stack != loop.getStacks().end()) { // what is carried may lie in a list with the final value behind it
      Value each = loop.yield().getStacked()[stack - loop.getStacks().begin()];
      return loop.getAxis() == axis && !isa<BlockArgument>(each) &&
             !llvm::is_contained(loop.yield().getCarried(), each);
    }
    return sum != loop.getSums().end() && isZero(loop.yield().getSummed()[sum - loop.getSums().begin()]);
  }
  if (auto convert = dyn_cast_or_null<ConvertOp>(def))
    return isZero(convert.getValue());
  auto map = dyn_cast_or_null<ech::MapOp>(def);
  if (!map)
    return false;
  switch (map.getFunction()) {
  case ech::Function::Cast:
  case ech::Function::Neg:
    return isZero(map.getOperands()[0]);
  case ech::Function::Div:
    return isZero(map.getOperands()[0]) && isSameForAll(map.getOperands()[1]);
  case ech::Function::Mul:
    return llvm::any_of(map.getOperands(), isZero) &&
           llvm::all_of(map.getOperands(), [&](Value v) { return isZero(v) || isSameForAll(v); });
  case ech::Function::Add:
  case ech::Function::Sub:
    return llvm::all_of(map.getOperands(), isZero);
  default:
    return false;
  }
}

Value Assign::masked(Value x, OpOperand &operand) {
  Operation *user = operand.getOwner();
  Tensor type = ech::tensor(x);
  SmallVector<StringRef> axes;
  double value = 0;
  for (StringRef axis : type.names()) {
    if (!isPadded(type, axis, mesh))
      continue;
    ech::Padding wanted = cast<ech::AxisRule>(user).padding(operand.getOperandNumber(), axis);
    if (wanted.need == ech::Padding::Any)
      continue;
    if (wanted.need == ech::Padding::Number && wanted.value == 0 && unequalMap(type, axis, mesh) &&
        isZeroBehindStage(x, axis))
      continue;
    if (wanted.need == ech::Padding::Unknown || (!axes.empty() && wanted.value != value)) {
      int m = over(type, axis, mesh).back();
      refuse(user,
             nameInSource(user) + " along " + axis.str() + ", padded over " + mesh.nameOf(m).str() +
                 ", is not built yet",
             clauses.place(m, StringAttr::get(user->getContext(), axis), user->getLoc()));
      return x;
    }
    axes.push_back(axis);
    value = wanted.value;
  }
  if (axes.empty())
    return x;
  OpBuilder builder(user);
  ArrayAttr names = builder.getStrArrayAttr(axes);
  FloatAttr fill = builder.getF64FloatAttr(value);
  if (user->getBlock() == x.getParentBlock())
    if (Value known = masks.lookup({x, names, fill}))
      return known;
  auto mask = MaskOp::create(builder, user->getLoc(), type, x, names, fill);
  copyPhase(user, mask);
  if (user->getBlock() == x.getParentBlock())
    masks[{x, names, fill}] = mask;
  return mask;
}

//===- free values ----------------------------------------------------------------------------------------------===//

// A list of what is wanted, no recursion: a chain of free operations may be as long as a model.
Value Assign::produce(Value x, StateAttr state, Operation *user) {
  SmallVector<Wanted> open{{x, state, user}};
  while (!open.empty()) {
    Wanted last = open.back();
    if (produced.contains({last.value, last.state})) {
      open.pop_back();
      continue;
    }
    SmallVector<Wanted> needs = needsOf(last);
    llvm::erase_if(needs, [&](const Wanted &need) { return produced.contains({need.value, need.state}); });
    if (needs.empty())
      produced[{last.value, last.state}] = make(last);
    else // the first of them first
      open.append(needs.rbegin(), needs.rend());
  }
  return produced.lookup({x, state});
}

/// What must be there before it can be made.
SmallVector<Assign::Wanted> Assign::needsOf(const Wanted &wanted) {
  Value x = wanted.value;
  if (ech::RepeatOp loop = slicesOfFree.lookup(x)) // a slice of this
    return {{loop.getSlices()[sliceOf(loop, x)], stateOfStack(wanted.state, loop.getAxisAttr(), mesh), loop}};
  Again again = againOf(wanted);
  SmallVector<Wanted> needs;
  if (!again.read)
    for (auto [operand, state] : llvm::zip(x.getDefiningOp()->getOperands(), again.operands))
      needs.push_back({operand, state, anchorOf(wanted)});
  return needs;
}

Value Assign::make(const Wanted &wanted) {
  Value x = wanted.value;
  if (ech::RepeatOp loop = slicesOfFree.lookup(x)) { // one more slice
    const StateAttr stack = stateOfStack(wanted.state, loop.getAxisAttr(), mesh);
    loop.getSlicesMutable().append(produced.lookup({loop.getSlices()[sliceOf(loop, x)], stack}));
    return loop.block()->addArgument(ech::tensor(x).withState(wanted.state), x.getLoc());
  }
  Again again = againOf(wanted);
  Operation *source = x.getDefiningOp(), *anchor = anchorOf(wanted);
  OpBuilder builder(anchor);
  Value result;
  if (again.read) {
    // An input is fed in the new names at once: their pieces need not be pieces in the old ones.
    auto relabel = cast<ech::RelabelOp>(source);
    auto read = ech::ReadOp::create(builder, again.read.getLoc(), ech::tensor(x).withState(again.direct),
                                    again.read.getSource());
    read->setAttr(ech::kReadFrom, relabel.getFrom());
    read->setAttr(ech::kReadTo, relabel.getTo());
    copyPhase(anchor, read);
    result = read.getValue();
  } else {
    SmallVector<Value> values;
    for (auto [operand, state] : llvm::zip(source->getOperands(), again.operands))
      values.push_back(produced.lookup({operand, state}));
    Operation *made = builder.clone(*source);
    made->setOperands(values);
    result = made->getResult(cast<OpResult>(x).getResultNumber());
    for (Value r : made->getResults())
      setState(r, again.direct);
  }
  return again.direct == wanted.state ? result
                                      : convert(result, wanted.state, anchor, wanted.user, useOf(x, wanted.user));
}

Operation *Assign::anchorOf(const Wanted &wanted) {
  Value x = wanted.value;
  return x.getParentBlock()->findAncestorOpInBlock(*wanted.user);
}

Assign::Again Assign::againOf(const Wanted &wanted) {
  Value x = wanted.value;
  Operation *source = x.getDefiningOp();
  StateAttr direct = wanted.state;
  auto constant = dyn_cast<ech::ConstantOp>(source);
  bool zero = constant && constant.getValue().isZero();
  for (int m = 0; m < mesh.size(); ++m)
    if ((direct[m].hold == Hold::Sum && !zero) || (direct[m].hold == Hold::Flat && !constant))
      direct = direct.with(m, Hold::Whole);

  auto relabel = dyn_cast<ech::RelabelOp>(source);
  auto read = relabel ? relabel.getOperand().getDefiningOp<ech::ReadOp>() : ech::ReadOp();
  SmallVector<StateAttr> operands(source->getNumOperands(), direct);
  if (relabel && !read) {
    auto names = renameState(direct, ech::tensor(x), ech::tensor(relabel.getOperand()), relabel.getTo(),
                             relabel.getFrom(), mesh);
    for (int m = 0; m < mesh.size(); ++m)
      if (names[m])
        operands[0] = operands[0].with(m, *names[m]);
      else {
        operands[0] = operands[0].with(m, Hold::Whole);
        direct = direct.with(m, Hold::Whole);
      }
  } else {
    for (auto [i, operand] : llvm::enumerate(operands))
      for (int m = 0; m < mesh.size(); ++m)
        if (StringAttr axis = direct[m].axis; axis && !ech::tensor(source->getOperand(i)).has(axis))
          operand = operand.with(m, Hold::Whole);
  }
  return {direct, operands, read};
}
