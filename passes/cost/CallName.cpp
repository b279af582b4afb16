#include "passes/cost/CallName.h"
#include "ir/ech/SourcePlace.h"
#include "passes/LocalNames.h"

using namespace mlir;
using namespace echelon;

/// "[batch=32, hidden=128]".
static std::string axesText(rt::Buffer type) {
  std::string text = "[";
  for (const ech::Axis &a : type.getAxes())
    text += (text.size() > 1 ? ", " : "") + a.name.str() + "=" + std::to_string(a.size);
  return text + "]";
}

/// "q", of a member and of a variable.
static std::string nameIn(Value v) {
  auto view = v.getDefiningOp<rt::ViewOp>();
  Operation *op = v.getDefiningOp();
  if (auto member = op ? op->getAttrOfType<ArrayAttr>(rt::kMember) : ArrayAttr())
    return cast<StringAttr>(member[1]).str();
  std::string name = nameOf(v);
  return name.empty() && view ? nameIn(view.getBase()) : name;
}

std::string echelon::callName(const rt::Cost &cost) {
  return cost.about ? cost.name + " " + nameIn(cost.about) + " " + axesText(rt::buffer(cost.about)) : cost.name;
}

std::string echelon::callLines(Operation *op) {
  SmallVector<std::string> labels;
  op->walk<WalkOrder::PreOrder>([&](Operation *part) {
    std::string label = ech::sourcePlace(part->getLoc());
    if (!label.empty() && !llvm::is_contained(labels, label))
      labels.push_back(label);
  });
  if (labels.empty())
    return "";
  return labels.front() + (labels.size() > 1 ? " +" + std::to_string(labels.size() - 1) : "");
}
