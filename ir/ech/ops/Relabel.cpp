// Other names for axes: renames, splits and merges.
#include "ir/ech/ops/Check.h"
#include "ir/ech/ops/Derive.h"

using namespace mlir;
using namespace echelon::ech;

LogicalResult RelabelOp::verify() {
  Tensor from = tensor(getOperand()), to = tensor(getResult());
  if (getFrom().size() != getTo().size())
    return emitOpError() << "has " << getFrom().size() << " groups of old names and " << getTo().size() << " of new";
  SmallVector<Axis> axes(from.getAxes());
  for (auto [old, fresh] : llvm::zip(getFrom().getAsRange<ArrayAttr>(), getTo().getAsRange<ArrayAttr>())) {
    if (old.empty() || fresh.empty())
      return emitOpError() << "has an empty group of names";
    if (failed(checkHas(*this, old, from, "the operand")) || failed(checkHas(*this, fresh, to, "the result")))
      return failure();
    int64_t before = 1, after = 1;
    for (auto name : old.getAsRange<StringAttr>()) {
      before *= from.sizeOf(name);
      llvm::erase_if(axes, [&](const Axis &a) { return a.name == name; });
    }
    for (auto name : fresh.getAsRange<StringAttr>())
      after *= to.sizeOf(name);
    if (before != after)
      return emitOpError() << "gives " << before << " positions the names of " << after;
  }
  for (auto fresh : getTo().getAsRange<ArrayAttr>())
    for (auto name : fresh.getAsRange<StringAttr>())
      axes.push_back({name, to.sizeOf(name)});
  if (failed(checkElement(*this, to, from.getElement(), "the result")))
    return failure();
  return checkAxes(*this, to, axes, "the result");
}

SmallVector<Value> RelabelOp::derive(Build &build, ArrayRef<Value> cotangents, ArrayRef<bool>) {
  return {build.relabel(cotangents[0], getTo(), getFrom(), tensor(getOperand()))};
}
Freedom RelabelOp::freedom() { return Freedom::IfOperandsAre; }
Linearity RelabelOp::linearIn(ArrayRef<bool>) { return {true}; }
bool RelabelOp::takesPositions(StringRef axis) {
  auto names = [&](ArrayAttr groups) {
    return llvm::any_of(groups.getAsRange<ArrayAttr>(), [&](ArrayAttr group) { return has(group, axis); });
  };
  return names(getFrom()) || names(getTo());
}
PendingRule RelabelOp::pendingRule() { return PendingRule::Through; }
bool RelabelOp::relabels() { return true; }
