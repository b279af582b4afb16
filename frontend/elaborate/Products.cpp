#include "frontend/elaborate/Products.h"

using namespace mlir;
using namespace echelon::frontend;
namespace ech = echelon::ech;

std::optional<Term> echelon::frontend::multiplied(const Term &x, const Term &y) {
  Term both = x;
  llvm::append_range(both.factors, y.factors);
  llvm::append_range(both.squared, y.squared);
  for (const Extent &extent : y.extents) {
    auto same = llvm::find_if(both.extents, [&](const Extent &e) { return e.axis == extent.axis; });
    if (same == both.extents.end()) {
      both.extents.push_back(extent);
      continue;
    }
    same->first = std::max(same->first, extent.first);
    same->end = std::min(same->end, extent.end);
    if (same->first >= same->end)
      return std::nullopt;
  }
  return both;
}

void echelon::frontend::cross(const Terms &first, const Terms &second, Terms &result) {
  for (const Term &x : first)
    for (const Term &y : second) {
      const bool ofSamples = llvm::any_of(x.factors, [](const Factor &f) { return f.kind == Origin::Data; });
      const bool isPlace = llvm::any_of(y.factors, [](const Factor &f) { return f.isOuter; });
      auto both = ofSamples && isPlace && result.size() < maxTerms ? multiplied(x, y) : std::nullopt;
      if (!both)
        continue;
      for (Factor &factor : both->factors)
        factor.isAdded &= !factor.isOuter;
      result.push_back(std::move(*both));
    }
}

/// Moves with the axes, as far as it is known where a part lies.
static void moveExtents(Term &term, Operation *op, OpOperand &operand) {
  auto forget = [&](auto &&isLost) { llvm::erase_if(term.extents, [&](Extent &e) { return isLost(e.axis); }); };
  if (auto concat = dyn_cast<ech::ConcatOp>(op)) {
    auto sizeOf = [&](Value part) { return ech::tensor(part).sizeOf(concat.getAxisAttr()); };
    int64_t before = 0;
    for (Value part : concat.getOperands().take_front(operand.getOperandNumber()))
      before += sizeOf(part);
    for (Extent &extent : term.extents)
      if (extent.axis == concat.getAxisAttr()) {
        extent.first += before;
        extent.end += before;
        return;
      }
    term.extents.push_back({concat.getAxisAttr(), before, before + sizeOf(operand.get())});
  } else if (auto slice = dyn_cast<ech::SliceOp>(op)) {
    forget([&](StringAttr axis) { return axis == slice.getAxisAttr(); });
  } else if (auto relabel = dyn_cast<ech::RelabelOp>(op)) {
    for (auto [from, to] :
         llvm::zip(relabel.getFrom().getAsRange<ArrayAttr>(), relabel.getTo().getAsRange<ArrayAttr>()))
      if (from.size() != 1 || to.size() != 1)
        forget([&, group = from](StringAttr axis) { return ech::has(group, axis); });
    for (Extent &extent : term.extents)
      for (auto [from, to] :
           llvm::zip(relabel.getFrom().getAsRange<ArrayAttr>(), relabel.getTo().getAsRange<ArrayAttr>()))
        if (from.size() == 1 && to.size() == 1 && from[0] == extent.axis) {
          extent.axis = cast<StringAttr>(to[0]);
          break;
        }
  } else {
    auto after = ech::tensor(op->getResult(0));
    forget([&](StringAttr axis) { return !after.has(axis); });
  }
}

void echelon::frontend::carry(Term &term, Operation *op, OpOperand &operand, Value result) {
  for (Factor &factor : term.factors) {
    factor.axes = carried(op, operand, result, factor.axes);
    if (isa<ech::ExpandOp>(op) && factor.kind == Origin::Data)
      for (const ech::Axis &axis : ech::tensor(result).getAxes())
        addAxis(factor.axes, axis.name);
    for (auto &[parameter, axes] : factor.along)
      axes = carried(op, operand, result, axes);
  }
  moveExtents(term, op, operand);
}

void echelon::frontend::sumAway(Term &term, const AxisSet &axes) {
  auto isSummed = [&](StringAttr axis) { return llvm::is_contained(axes, axis); };
  for (Factor &factor : term.factors) {
    llvm::erase_if(factor.axes, isSummed);
    for (auto &[parameter, along] : factor.along)
      llvm::erase_if(along, isSummed);
  }
  llvm::erase_if(term.extents, [&](Extent &extent) { return isSummed(extent.axis); });
}
