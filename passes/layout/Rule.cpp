// The list rule on one operation.
#include "passes/layout/Rule.h"

#include "passes/StaysPending.h"

using namespace mlir;
using namespace echelon;
using namespace echelon::dist;
using namespace echelon::layout;

/// Whether the pending sums over mesh axis m stay pending through the operation, and of which operand.
static bool staysPending(Operation *op, ech::PendingRule rule, ArrayRef<StateAttr> now, int m) {
  auto isSum = [&](unsigned i) { return now[i] && now[i][m].hold == Hold::Sum; };
  auto isSplit = [&](unsigned i) { return now[i] && now[i][m].isPart(); };
  unsigned n = op->getNumOperands();
  switch (rule) {
  case ech::PendingRule::Resolve:
    return false;
  case ech::PendingRule::Through:
    for (unsigned i = 0; i < n; ++i)
      if (isSum(i) && !ech::isNumber(op->getOperand(i)))
        return true;
    return false;
  case ech::PendingRule::Add:
    break;
  }
  bool full = false;
  int64_t rank = ech::tensor(op->getResult(0)).rank();
  for (unsigned i = 0; i < n; ++i) {
    if (isSplit(i))
      return false;
    full |= isSum(i) && ech::tensor(op->getOperand(i)).rank() == rank;
  }
  return full;
}

bool echelon::layout::staysLinear(Operation *op, ArrayRef<bool> isSum, StringRef meshAxis) {
  auto marked = op->getAttrOfType<ArrayAttr>(kStaysPending);
  if (!marked || !ech::has(marked, meshAxis) || !llvm::is_contained(isSum, true))
    return false;
  const ech::Linearity linearity = cast<ech::AxisRule>(op).linearIn(isSum);
  return linearity.isLinear &&
         (linearity.sharedFrom < 0 || !llvm::is_contained(isSum.drop_front(linearity.sharedFrom), false));
}

/// The first listed axis of mesh axis m in the operation's space that it can be divided along.
static StringAttr chosenAxis(Operation *op, int m, MeshAttr mesh) {
  auto rule = cast<ech::AxisRule>(op);
  for (auto axis : mesh.getAxes()[m].list.getAsRange<StringAttr>()) {
    auto inSpace = [&](Value v) { return ech::tensor(v).has(axis); };
    if (!llvm::any_of(op->getOperands(), inSpace) && !llvm::any_of(op->getResults(), inSpace))
      continue;
    if (rule.division(axis) != ech::Division::Never)
      return axis;
  }
  return {};
}

/// Calls visit with an attention, or its derivative.
template <typename Visit> static auto onAttention(Operation *op, Visit visit) {
  if (auto grad = dyn_cast<ech::AttentionGradOp>(op))
    return visit(grad);
  return visit(cast<ech::AttentionOp>(op));
}

SmallVector<int> echelon::layout::ringsOf(Operation *attention, ArrayAttr over, MeshAttr mesh) {
  return onAttention(attention, [&](auto op) {
    return llvm::filter_to_vector(llvm::seq(mesh.size()), [&](int m) {
      const StringAttr axis = chosenAxis(op, m, mesh);
      return ech::has(over, mesh.nameOf(m)) && axis && axis == op.getQuery() && mesh.place(m, op.getPast()) >= 0;
    });
  });
}

bool echelon::layout::goesRound(Operation *op, int m, MeshAttr mesh) {
  auto ring = op->getAttrOfType<StringAttr>(kRing);
  return ring && ring == mesh.nameOf(m);
}

/// What has queries is split along them, keys and values and their derivatives along `past`. A mask or bias is whole
/// along `past`; the derivative of a bias without queries is a sum over the ranks.
Entry echelon::layout::entryInRing(Operation *attention, Value v, int m, MeshAttr mesh) {
  return onAttention(attention, [&](auto op) -> Entry {
    const StringAttr over = mesh.getAxes()[m].name;
    if (ech::tensor(v).has(op.getQuery()))
      return {over, Hold::Split, op.getQueryAttr()};
    if (v == op.getMask() || v == op.getBias())
      return {over, Hold::Whole, {}};
    auto grad = dyn_cast<ech::AttentionGradOp>(attention);
    if (grad && v == grad.getDbias())
      return {over, Hold::Sum, {}};
    return {over, Hold::Split, op.getPastAttr()};
  });
}

Decision echelon::layout::decide(Operation *op, ArrayRef<StateAttr> now, MeshAttr mesh, StateAttr cut) {
  auto rule = cast<ech::AxisRule>(op);
  ech::PendingRule pending = rule.pendingRule();
  StateAttr whole = wholeState(mesh);
  Decision decision;
  decision.operands.assign(op->getNumOperands(), whole);
  decision.results.assign(op->getNumResults(), whole);
  decision.divided.resize(mesh.size());
  for (int m = 0; m < mesh.size(); ++m) {
    auto isSum = llvm::map_to_vector(now, [&](StateAttr state) { return state && state[m].hold == Hold::Sum; });
    if (staysLinear(op, isSum, mesh.nameOf(m))) {
      for (auto [i, state] : llvm::enumerate(decision.operands))
        if (isSum[i])
          state = state.with(m, Hold::Sum);
      for (StateAttr &state : decision.results)
        state = state.with(m, Hold::Sum);
      continue;
    }
    if (staysPending(op, pending, now, m)) {
      for (auto [i, state] : llvm::enumerate(decision.operands))
        if (pending == ech::PendingRule::Add || !ech::isNumber(op->getOperand(i)))
          state = state.with(m, Hold::Sum);
      for (StateAttr &state : decision.results)
        state = state.with(m, Hold::Sum);
      continue;
    }
    StringAttr axis = chosenAxis(op, m, mesh);
    if (goesRound(op, m, mesh)) {
      decision.divided[m] = axis;
      for (auto [i, state] : llvm::enumerate(decision.operands))
        state = state.with(m, entryInRing(op, op->getOperand(i), m, mesh));
      for (auto [i, state] : llvm::enumerate(decision.results))
        state = state.with(m, entryInRing(op, op->getResult(i), m, mesh));
      continue;
    }
    if (!axis && cut && cut[m].isPart()) {
      // the update's own values lie as the cut does, numbers and what lacks the cut axis are whole, and a sum along it
      // is pending
      auto lay = [&](StateAttr &state, Value v) {
        if (cut[m].axis ? ech::tensor(v).has(cut[m].axis) : ech::tensor(v).rank() != 0)
          state = state.with(m, cut[m]);
        else if (isa<ech::ReduceOp>(op) && v == op->getResult(0))
          state = state.with(m, Hold::Sum);
      };
      for (auto [i, state] : llvm::enumerate(decision.operands))
        lay(state, op->getOperand(i));
      for (auto [i, state] : llvm::enumerate(decision.results))
        lay(state, op->getResult(i));
      continue;
    }
    if (!axis)
      continue;
    decision.divided[m] = axis;
    for (auto [i, state] : llvm::enumerate(decision.operands))
      if (ech::tensor(op->getOperand(i)).has(axis))
        state = state.with(m, Hold::Split, axis);
    bool inside = rule.division(axis) == ech::Division::Inside;
    if (inside)
      decision.inside.push_back(m);
    for (auto [i, state] : llvm::enumerate(decision.results))
      if (ech::tensor(op->getResult(i)).has(axis))
        state = state.with(m, Hold::Split, axis);
      else if (!inside)
        state = state.with(m, Hold::Sum);
  }
  return decision;
}

bool echelon::layout::isReorder(Operation *op) {
  auto relabel = dyn_cast<ech::RelabelOp>(op);
  return relabel && relabel.getFrom().empty();
}
