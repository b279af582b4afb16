#include "frontend/elaborate/Origins.h"

using namespace mlir;
using namespace echelon::frontend;
namespace ech = echelon::ech;

/// The axes of the result's groups for which the operand's have one of `axes`.
static AxisSet relabelled(ech::RelabelOp op, const AxisSet &axes) {
  AxisSet result, renamed;
  for (auto [from, to] : llvm::zip(op.getFrom().getAsRange<ArrayAttr>(), op.getTo().getAsRange<ArrayAttr>())) {
    bool varies = false;
    for (auto name : from.getAsRange<StringAttr>()) {
      varies |= llvm::is_contained(axes, name);
      renamed.push_back(name);
    }
    for (auto name : to.getAsRange<StringAttr>())
      if (varies)
        addAxis(result, name);
  }
  for (StringAttr axis : axes)
    if (!llvm::is_contained(renamed, axis))
      addAxis(result, axis);
  return result;
}

AxisSet echelon::frontend::carried(Operation *op, OpOperand &operand, Value result, const AxisSet &axes) {
  if (auto relabel = dyn_cast<ech::RelabelOp>(op))
    return relabelled(relabel, axes);
  auto before = ech::tensor(operand.get()), after = ech::tensor(result);
  AxisSet left;
  for (StringAttr axis : axes)
    if (after.has(axis) || !before.has(axis)) // it stays, or it is that of a repeat
      left.push_back(axis);
  if (auto gather = dyn_cast<ech::GatherOp>(op))
    if (operand.getOperandNumber() == 0 &&
        llvm::any_of(axes, [&](StringAttr axis) { return ech::has(gather.getAxes(), axis); }))
      for (Value index : gather.getIndices())
        for (const ech::Axis &axis : ech::tensor(index).getAxes())
          addAxis(left, axis.name);
  if (auto concat = dyn_cast<ech::ConcatOp>(op))
    addAxis(left, concat.getAxisAttr());
  return left;
}

Origins::Origins(ech::StepOp step, const llvm::DenseMap<StringAttr, Origin::Kind> &read,
                 const llvm::StringSet<> &samples)
    : read(read), samples(samples) {
  visit(step.getBody().front());
}

const Origin &Origins::operator[](Value value) const { return origins.find(value)->second; }

bool Origins::join(Value into, const Origin &origin) {
  Origin &known = origins[into];
  bool changed = origin.kind > known.kind;
  known.kind = std::max(known.kind, origin.kind);
  if (known.kind == Origin::Data) { // nobody asks of which
    known.along.clear();
    return changed;
  }
  for (const auto &[parameter, axes] : origin.along) {
    auto [it, isNew] = known.along.try_emplace(parameter);
    size_t before = it->second.size();
    for (StringAttr axis : axes)
      addAxis(it->second, axis);
    changed |= isNew || it->second.size() != before;
  }
  return changed;
}

bool Origins::hasSamples(ech::Tensor type) const {
  return llvm::any_of(type.getAxes(), [&](const ech::Axis &axis) { return samples.contains(axis.name.getValue()); });
}

void Origins::visit(Block &block) {
  for (Operation &op : block) {
    if (auto loop = dyn_cast<ech::RepeatOp>(op)) {
      visit(loop);
      continue;
    }
    for (Value result : op.getResults()) {
      Origin made;
      if (auto reading = dyn_cast<ech::ReadOp>(op)) {
        const StringAttr name = reading.getSourceAttr().getAttr();
        auto known = read.find(name);
        made.kind = known == read.end() ? Origin::Data : known->second;
        if (made.kind == Origin::Parameters) {
          AxisSet &axes = made.along[name];
          for (const ech::Axis &axis : ech::tensor(result).getAxes())
            axes.push_back(axis.name);
        }
      } else if (isa<ech::RandomOp>(op)) {
        made.kind = hasSamples(ech::tensor(result)) ? Origin::Data : Origin::Numbers;
      }
      join(result, made);
      for (OpOperand &operand : op.getOpOperands()) {
        const Origin &of = origins[operand.get()];
        Origin through;
        through.kind = of.kind;
        for (const auto &[parameter, axes] : of.along)
          through.along[parameter] = carried(&op, operand, result, axes);
        join(result, through);
      }
    }
  }
}

/// What an iteration leaves behind may be of other things than what it began with, so the body is gone over until
/// nothing is new.
void Origins::visit(ech::RepeatOp loop) {
  for (auto [argument, slice] : llvm::zip(loop.sliceArguments(), loop.getSlices()))
    join(argument, Origin(origins[slice]));
  for (auto [argument, init] : llvm::zip(loop.carriedArguments(), loop.getCarried()))
    join(argument, Origin(origins[init]));
  ech::YieldOp yield = loop.yield();
  for (bool changed = true; changed;) {
    visit(*loop.block());
    changed = false;
    for (auto [argument, next] : llvm::zip(loop.carriedArguments(), yield.getCarried()))
      changed |= join(argument, Origin(origins[next]));
  }
  for (auto [result, value] : llvm::zip(loop.getFinals(), yield.getCarried()))
    join(result, Origin(origins[value]));
  for (auto [result, value] : llvm::zip(loop.getStacks(), yield.getStacked()))
    join(result, Origin(origins[value]));
  for (auto [result, value] : llvm::zip(loop.getSums(), yield.getSummed()))
    join(result, Origin(origins[value]));
}
