#include "codegen/Probes.h"
#include "codegen/Printer.h"
#include "codegen/Text.h"
#include "ir/ech/SourcePlace.h"

using namespace mlir;
using namespace echelon;
using namespace echelon::codegen;

namespace {
/// "mlp.ech:15", or "mlp.ech:15 +2" where two more lines went into the operation.
std::string linesOf(Operation &op) {
  SmallVector<std::string> labels;
  op.walk<WalkOrder::PreOrder>([&](Operation *part) {
    std::string label = ech::sourcePlace(part->getLoc());
    if (!label.empty() && !llvm::is_contained(labels, label))
      labels.push_back(label);
  });
  if (labels.empty())
    return "";
  return labels.front() + (labels.size() > 1 ? " +" + std::to_string(labels.size() - 1) : "");
}
/// "q", of a member and of a variable.
std::string nameIn(Value v) {
  auto view = v.getDefiningOp<rt::ViewOp>();
  Operation *op = v.getDefiningOp();
  if (auto member = op ? op->getAttrOfType<ArrayAttr>(rt::kMember) : ArrayAttr())
    return cast<StringAttr>(member[1]).str();
  std::string name = nameOf(v);
  return name.empty() && view ? nameIn(view.getBase()) : name;
}
} // namespace

std::string Probes::behind(Operation &op) {
  auto costed = dyn_cast<rt::Costed>(op);
  if (!costed)
    return "";
  rt::Cost cost = costed.cost();
  std::string name = cost.name;
  if (cost.about)
    name += " " + nameIn(cost.about) + " " + describe(rt::buffer(cost.about));
  auto group = isa<rt::CollectiveOp>(op) ? op.getAttrOfType<IntegerAttr>(rt::kGroup) : IntegerAttr();
  entries.push_back("{" + quoted(name) + ", " + quoted(linesOf(op)) + ", " + quoted(cost.kind) + ", " +
                    std::to_string(cost.flops) + ", " + std::to_string(cost.bytes) +
                    (group ? ", " + std::to_string(group.getInt()) : "") + "}");
  return "r.lap(" + std::to_string(entries.size() - 1) + ");";
}

void Probes::print(raw_ostream &os) const {
  os << "/// The operations of a step, as r.lap(…) after each numbers them: what, line, kind, flops and bytes of one "
        "call; the group of a collective.\n"
     << "// clang-format off: one line an operation\nconst std::vector<ProfiledOp> profiled = {\n";
  for (const std::string &entry : entries)
    os << "    " << entry << ",\n";
  os << "};\n// clang-format on\n\n";
}
