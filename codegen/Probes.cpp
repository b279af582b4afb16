#include "codegen/Probes.h"
#include "codegen/Printer.h"
#include "codegen/Text.h"
#include "passes/cost/CallName.h"
#include "llvm/Support/Format.h"

using namespace mlir;
using namespace echelon;
using namespace echelon::codegen;

std::string Probes::behind(Operation &op) {
  auto costed = dyn_cast<rt::Costed>(op);
  if (!costed)
    return "";
  rt::Cost cost = costed.cost();
  auto group = isa<rt::CollectiveOp>(op) ? op.getAttrOfType<IntegerAttr>(rt::kGroup) : IntegerAttr();
  auto predicted = op.getAttrOfType<FloatAttr>(kPredicted);
  std::string entry;
  llvm::raw_string_ostream os(entry);
  os << "{" << quoted(callName(cost)) << ", " << quoted(callLines(&op)) << ", " << quoted(cost.kind) << ", "
     << cost.flops << ", " << cost.bytes;
  if (group || predicted)
    os << ", " << (group ? group.getInt() : -1);
  if (predicted)
    os << ", " << llvm::format("%.4g", predicted.getValueAsDouble());
  os << "}";
  entries.push_back(std::move(entry));
  return "r.lap(" + std::to_string(entries.size() - 1) + ");";
}

void Probes::print(raw_ostream &os) const {
  os << "/// The operations of a step, as r.lap(…) after each numbers them: what, line, kind, flops and bytes of one "
        "call; the group of a collective, else -1; seconds as predicted.\n"
     << "// clang-format off: one line an operation\nconst std::vector<ProfiledOp> profiled = {\n";
  for (const std::string &entry : entries)
    os << "    " << entry << ",\n";
  os << "};\n// clang-format on\n\n";
}
