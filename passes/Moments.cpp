#include "passes/Moments.h"
#include "ir/rt/Rt.h"
#include "passes/Identifier.h"
#include "passes/compress/Workers.h"

using namespace mlir;
using namespace echelon;

std::pair<StringRef, StringRef> echelon::momentOf(ech::VariableOp variable) {
  StringRef path = variable.getSymName();
  if (variable.getKind() == ech::VariableKind::Average)
    return path.split('.');
  if (variable.getKind() != ech::VariableKind::Optimizer || !path.consume_front("optimizer."))
    return {};
  return path.split('.');
}

bool echelon::isSharedByWorkers(ech::VariableOp variable) {
  const ech::VariableKind kind = variable.getKind();
  if (kind == ech::VariableKind::Compression) // of deltas, and not of what each packs inside
    return bool(compress::clauseBetweenWorkers(variable->getParentOfType<ModuleOp>()));
  return kind == ech::VariableKind::Copy || kind == ech::VariableKind::HandedIn || kind == ech::VariableKind::Average ||
         momentOf(variable).first == "outer_momentum";
}

namespace {
std::optional<int64_t> offsetOf(ech::VariableOp variable) {
  auto at = variable->getAttrOfType<IntegerAttr>(rt::kOffset);
  return at ? std::optional(at.getInt()) : std::nullopt;
}
bool isZeroAtFirst(ech::VariableOp variable) {
  return variable.getInit() == ech::Distribution::Constant && variable.getA().isZero();
}
} // namespace

llvm::MapVector<StringRef, int64_t> echelon::momentsLikeParams(ModuleOp module) {
  struct Found {
    int64_t shift, count = 0;
    bool like = true;
  };
  llvm::MapVector<StringRef, Found> found;
  llvm::StringMap<ech::VariableOp> params;
  for (auto variable : module.getOps<ech::VariableOp>())
    if (variable.getKind() == ech::VariableKind::Param)
      params[variable.getSymName()] = variable;
  for (auto variable : module.getOps<ech::VariableOp>()) {
    auto [name, path] = momentOf(variable);
    ech::VariableOp param = params.lookup(path);
    if (!param)
      continue;
    const std::optional<int64_t> from = offsetOf(param), at = offsetOf(variable);
    if (!from || !at) // arenas are not planned
      return {};
    const int64_t shift = *at - *from;
    Found &moment = found.insert({name, {shift}}).first->second;
    ++moment.count;
    moment.like &= moment.shift == shift && variable.getType() == param.getType() && isZeroAtFirst(variable);
  }
  const llvm::StringSet<> constants = constantsOf(module); // which no member of a struct hides
  SmallVector<std::pair<StringRef, int64_t>> list;
  for (auto &[name, moment] : found)
    if (moment.like && moment.count == static_cast<int64_t>(params.size()) && !constants.contains(identifier(name)))
      list.push_back({name, moment.shift});
  llvm::sort(list, [](const auto &a, const auto &b) { return a.second < b.second; });
  llvm::MapVector<StringRef, int64_t> moments;
  for (const auto &moment : list)
    moments.insert(moment);
  return moments;
}
