#include "frontend/elaborate/AxisRules.h"
#include "frontend/elaborate/Elaborator.h"

using namespace mlir;
using namespace echelon::frontend;
namespace ech = echelon::ech;

SmallVector<StringRef> echelon::frontend::refs(ArrayRef<StringAttr> names) {
  return llvm::map_to_vector(names, [](StringAttr n) { return n.getValue(); });
}

bool echelon::frontend::requireEqualSizes(Elaborator &elab, ech::Tensor a, ech::Tensor b, SourceRange range,
                                          const std::string &what) {
  for (const ech::Axis &axis : a.getAxes())
    if (b.has(axis.name) && b.sizeOf(axis.name) != axis.size) {
      elab.error(Code::E0204, range,
                 "sizes differ in " + what + ": " + elab.scopes.written(axis.name) + " = " + std::to_string(axis.size) +
                     " meets " + elab.scopes.written(axis.name) + " = " + std::to_string(b.sizeOf(axis.name)));
      return false;
    }
  return true;
}

bool echelon::frontend::requireAxes(Elaborator &elab, ech::Tensor type, ArrayRef<StringAttr> names, SourceRange range,
                                    const std::string &what) {
  for (StringAttr name : names)
    if (!type.has(name)) {
      elab.error(
          Code::E0206, range,
          what + " has no axis " + elab.scopes.written(name) + "; its axes are " + ech::describe(type) +
              (elab.loops.isWalked(name) ? ", for the repeat is at one position of " + elab.scopes.written(name) : ""));
      return false;
    }
  return true;
}

bool echelon::frontend::requireOrder(Elaborator &elab, ArrayRef<StringAttr> axes, SourceRange range,
                                     const std::string &what) {
  for (StringAttr name : axes)
    if (elab.countsSamples(name)) {
      elab.error(Code::E0219, range,
                 "samples have no order, so " + what + " does not run along " + elab.scopes.written(name));
      return false;
    }
  return true;
}

/// Where a value is an argmax over an axis that the other value has, and kept one that it lacks: "; write argmax …".
static std::string otherArgMax(Elaborator &elab, const Val &places, const Val &other) {
  auto op = places.isTensor() ? places.value.getDefiningOp<ech::ArgMaxOp>() : ech::ArgMaxOp();
  if (!op || !other.isTensor())
    return "";
  ech::Tensor from = ech::tensor(op->getOperand(0)), wanted = other.type();
  std::string over, instead;
  for (const ech::Axis &axis : from.getAxes()) {
    if (!places.type().has(axis.name))
      over = elab.scopes.written(axis.name);
    if (!wanted.has(axis.name) && !std::exchange(instead, elab.scopes.written(axis.name)).empty())
      return ""; // argmax runs over one
  }
  bool all = llvm::all_of(wanted.getAxes(), [&](const ech::Axis &axis) { return from.has(axis.name); });
  if (!all || instead.empty())
    return "";
  return "; argmax over " + over + " leaves " + ech::describe(places.type()) + ", argmax(…, over = " + instead +
         ") leaves " + ech::describe(wanted);
}

bool echelon::frontend::requireFit(Elaborator &elab, ArrayRef<Val> operands, SourceRange range,
                                   const std::string &spelling, bool lifted) {
  // Two sizes of one name never meet.
  for (auto [i, a] : llvm::enumerate(operands))
    for (const Val &b : operands.drop_front(i + 1))
      if (a.isTensor() && b.isTensor() && !requireEqualSizes(elab, a.type(), b.type(), range, "`" + spelling + "`"))
        return false;
  if (lifted)
    return true;
  const Val *widest = nullptr;
  for (const Val &v : operands)
    if (!v.isMade() && (!widest || v.type().rank() > widest->type().rank()))
      widest = &v;
  for (const Val &v : operands) {
    if (v.isMade() || &v == widest)
      continue;
    for (const ech::Axis &axis : v.type().getAxes())
      if (!widest->type().has(axis.name)) {
        std::string same; // another name for one axis?
        for (const ech::Axis &other : widest->type().getAxes())
          if (!v.type().has(other.name) && other.size == axis.size && elab.scopes.nameOf(axis.name) &&
              elab.scopes.nameOf(other.name) && !(elab.batch() && other.name == elab.batch()->name) &&
              !(elab.batch() && axis.name == elab.batch()->name))
            same = "; if " + elab.scopes.written(axis.name) + " is " + elab.scopes.written(other.name) +
                   ", declare it with " + elab.scopes.written(other.name) + ", or rename it: (…)[" +
                   elab.scopes.written(axis.name) + " -> " + elab.scopes.written(other.name) + "]";
        bool isWord = std::isalpha(static_cast<unsigned char>(spelling[0])) && spelling != "and" && spelling != "or";
        const std::string pairs =
            "; outer(" + (isWord ? spelling + "(…)" : "a " + spelling + " b") + ") pairs each with each";
        std::string other = otherArgMax(elab, v, *widest);
        if (other.empty())
          other = otherArgMax(elab, *widest, v);
        elab.error(Code::E0205, range,
                   "neither operand's axes contain the other's: " + ech::describe(widest->type()) + " and " +
                       ech::describe(v.type()) +
                       (!other.empty()  ? other
                        : !same.empty() ? same + pairs
                                        : "; give both the same axes" + pairs));
        return false;
      }
  }
  return true;
}
