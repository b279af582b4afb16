#include "codegen/Structs.h"
#include "codegen/Printer.h"
#include "passes/Moments.h"
#include "llvm/Support/Format.h"

using namespace mlir;
using namespace echelon;
using namespace echelon::codegen;

ArrayRef<Group> codegen::groups() {
  static constexpr Group kGroups[] = {
      {"Inputs", "in", "The batch."},
      {"Params", "p", "Parameters."},
      {"State", "state", "What the model keeps from one step to the next."},
      {"OptimizerState", "opt", "What the optimizer keeps from one step to the next."},
      {"Copies", "copy", "Parameters and states as the worker has read them."},
      {"HandedIn", "own", "What the worker hands in for the next update."},
      {"Totals", "total", "The sum of what the worker has handed in for the next update."},
      {"Activations", "act", "What one function of a step computes and another one reads."},
      {"Gradients", "grad", "Gradients, as the update takes them."},
      {"Sums", "sums", "What an evaluation keeps from one batch to the next: sums."}};
  return kGroups;
}
const Group &codegen::groupOf(StringRef type) {
  return *llvm::find_if(groups(), [&](const Group &group) { return group.type == type; });
}

namespace {
/// The moment ("" where it is none) and the name of a member: "m" and "wq" of "m.wq".
std::pair<StringRef, StringRef> split(ArrayAttr member) {
  auto [moment, name] = cast<StringAttr>(member[1]).getValue().split('.');
  return name.empty() ? std::pair(StringRef(), moment) : std::pair(moment, name);
}

int64_t offsetOf(Operation *op) {
  auto alloc = dyn_cast<rt::AllocOp>(op);
  return alloc ? alloc.getOffset().value_or(0) : 0;
}
} // namespace

std::string Structs::path(ArrayAttr member) {
  auto [moment, name] = split(member);
  return (moment.empty() ? "" : identifier(moment) + ".") + identifier(name);
}

Structs::Structs(ModuleOp module) {
  llvm::DenseSet<Attribute> known;
  module.walk([&](Operation *op) {
    auto name = op->getAttrOfType<ArrayAttr>(rt::kMember);
    auto view = dyn_cast<rt::ViewOp>(op);
    if (!name || !(isa<rt::AllocOp>(op) || view))
      return;
    if (view && (op->hasAttr(rt::kPosition) || !view.getIndices().empty() ||
                 view.getBase().getDefiningOp()->getAttr(rt::kMember) == name))
      return;                         // a place of a member, or the whole of it
    if (!split(name).first.empty()) { // in a Params of its own
      if (moments.empty())
        moments = momentsLikeParams(module);
      return;
    }
    if (known.insert(name).second)
      members[cast<StringAttr>(name[0]).getValue()].push_back({op, name});
  });
  for (const Group &group : groups()) {
    auto &list = members[group.type];
    if (group.type != "Activations" && group.type != "Gradients" && group.type != "Sums")
      llvm::stable_sort(list, [](const Member &a, const Member &b) { return offsetOf(a.op) < offsetOf(b.op); });
    // a message comes before its parts
    llvm::stable_sort(list,
                      [](const Member &a, const Member &b) { return isa<rt::AllocOp>(a.op) && isa<rt::ViewOp>(b.op); });
  }
}

bool Structs::isStack(ArrayAttr member) const {
  auto [moment, name] = split(member);
  auto group = members.find(moment.empty() ? cast<StringAttr>(member[0]).getValue() : "Params");
  if (group == members.end())
    return false;
  auto at = llvm::find_if(group->second,
                          [own = name](const Member &m) { return cast<StringAttr>(m.name[1]).getValue() == own; });
  return at != group->second.end() && at->op->hasAttr(rt::kStack);
}

std::string Structs::definition(const Member &member, SizeTable &sizes) const {
  Value value = member.op->getResult(0);
  rt::Buffer type = rt::buffer(value);
  std::string element = rt::storedAs(type.getElement()).str(), address;
  if (auto alloc = dyn_cast<rt::AllocOp>(member.op)) {
    std::string offset = std::to_string(alloc.getOffset().value_or(0));
    if (!moments.empty() && cast<StringAttr>(member.name[0]).getValue() == "Params")
      offset = offset == "0" ? "from" : "from + " + offset;
    address = ("r." + rt::stringifyArena(alloc.getArena()) + "<" + element + ">(" + offset + ")").str();
    if (alloc.getArena() == rt::Arena::Input)
      element = "const " + element;
  } else {
    auto view = cast<rt::ViewOp>(member.op);
    auto base = view.getBase().getDefiningOp()->getAttrOfType<ArrayAttr>(rt::kMember);
    address = identifier(cast<StringAttr>(base[1]).getValue());
    if (isStack(base))
      address += ".all";
    if (view.getOffset())
      address += " + " + std::to_string(view.getOffset());
  }
  const std::string name = identifier(cast<StringAttr>(member.name[1]).getValue());
  if (!member.op->hasAttr(rt::kStack))
    return element + " *" + name + " = " + address;
  return "Stack<" + element + "> " + name + "{" + address + ", " + sizes.product(type.getAxes().drop_front()) + "}";
}

namespace {
/// What the optimizer keeps of one parameter is on one line: "float *m_w = …, *v_w = …".
void pair(SmallVectorImpl<std::pair<std::string, std::string>> &lines) {
  auto pathOf = [](StringRef text) { // "w" of "float *m_w = …"
    return text.take_until([](char c) { return c == '='; }).split('*').second.split('_').second.trim();
  };
  for (size_t i = 0; i + 1 < lines.size();) {
    auto &[text, comment] = lines[i];
    auto [type, rest] = StringRef(lines[i + 1].first).split('*');
    const bool fits = text.size() + rest.size() + comment.size() + 12 <= kLineLength;
    if (!fits || comment != lines[i + 1].second || !StringRef(text).starts_with(type) ||
        pathOf(lines[i + 1].first) != pathOf(text)) {
      ++i;
      continue;
    }
    text += ", *" + rest.str();
    lines.erase(lines.begin() + i + 1);
  }
}
} // namespace

/// "Params m{r, 1675264};": where the moment begins in the state, in bytes.
void Structs::printMoments(raw_ostream &os) const {
  for (const auto &[name, shift] : moments)
    os << "  Params " << identifier(name) << "{r, " << shift << "};\n";
}

void Structs::print(SizeTable &sizes, raw_ostream &os) const {
  for (const Group &group : groups()) {
    auto list = members.find(group.type);
    const bool hasMoments = group.type == "OptimizerState" && !moments.empty();
    if ((list == members.end() || list->second.empty()) && !hasMoments)
      continue;
    SmallVector<std::pair<std::string, std::string>> lines; // definition, shape
    if (list != members.end())
      for (const Member &member : list->second)
        lines.push_back({definition(member, sizes), shape(rt::buffer(member.op->getResult(0)), sizes)});
    if (group.type == "OptimizerState")
      pair(lines);
    size_t width = 0;
    for (auto &[text, comment] : lines)
      width = std::max(width, (text += ";").size());
    os << "/// " << group.summary << "\nstruct " << group.type << " {\n  Rank &r;\n";
    if (group.type == "Params" && !moments.empty())
      os << "  int64_t from = 0; // where they begin in the state, in bytes; each moment has the same layout\n";
    if (hasMoments)
      printMoments(os);
    for (const auto &[text, comment] : lines)
      os << "  " << llvm::left_justify(text, std::min<size_t>(width, 84)) << " // " << comment << "\n";
    os << "};\n\n";
  }
}
