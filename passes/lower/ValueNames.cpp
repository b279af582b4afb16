// What a value is called where the spec gives it no name of its own: after the result that it is (rstd, log_sum), after
// what a repeat yields, else after its operation.
#include "passes/lower/Lowering.h"
#include "llvm/ADT/TypeSwitch.h"

using namespace mlir;
using namespace echelon;
using namespace echelon::lower;

namespace {
/// The name of one of several results of an operation; empty: the first one, which has the operation's own.
StringRef nameOfResult(Operation *op, unsigned result) {
  static constexpr StringRef kNorm[] = {"", "rstd", "mean", "variance", "mean_low"};
  static constexpr StringRef kLogSumExp[] = {"", "shift", "log_sum"};
  static constexpr StringRef kAttention[] = {"", "maximum", "sum_of_exp"};
  static constexpr StringRef kAttentionGrad[] = {"d_query", "d_key", "d_value", "d_bias"};
  return llvm::TypeSwitch<Operation *, StringRef>(op)
      .Case([&](ech::NormalizeOp) { return kNorm[result]; })
      .Case<ech::LogSumExpOp, ech::CrossEntropyOp>([&](auto) { return kLogSumExp[result]; })
      .Case([&](ech::AttentionOp) { return kAttention[result]; })
      .Case([&](ech::AttentionGradOp) { return kAttentionGrad[result]; })
      .Case<dist::PartialOp, dist::CombineOp>([&](auto each) { return each.nameOf(result); })
      .Default(StringRef());
}

/// The value that another one is called after: what a loop yields, what only gets other names for its axes.
Value namesake(Value v) {
  auto result = dyn_cast<OpResult>(v);
  if (!result)
    return v;
  if (auto loop = dyn_cast<ech::RepeatOp>(result.getOwner()))
    return namesake(loop.yield()->getOperand(result.getResultNumber()));
  if (auto group = dyn_cast<rt::GroupOp>(result.getOwner()))
    return namesake(group.getBody().front().getTerminator()->getOperand(result.getResultNumber()));
  if (auto relabel = dyn_cast<ech::RelabelOp>(result.getOwner()); relabel && rt::nameOf(relabel.getLoc()).empty())
    return namesake(relabel.getOperand());
  return v;
}
} // namespace

std::string echelon::lower::nameOf(Value v) {
  v = namesake(v);
  if (auto result = dyn_cast<OpResult>(v))
    if (StringRef name = nameOfResult(result.getOwner(), result.getResultNumber()); !name.empty())
      return name.str();
  return shortName(rt::nameOf(v.getLoc()));
}

std::string echelon::lower::shortName(StringRef path) {
  std::string before = path.consume_front("d_") ? "d_" : "";
  SmallVector<StringRef> parts;
  path.split(parts, '.');
  if (parts.front() == "optimizer" && parts.size() > 2) {
    before += (parts[1] + "_").str();
    parts.erase(parts.begin(), parts.begin() + 2);
  }
  if (parts.size() > 1)
    return before + (parts[parts.size() - 2] + "_" + parts.back()).str();
  return before + parts.back().str();
}

Location Lowering::locOf(Value v) {
  auto known = places.find(v);
  Location loc = known == places.end() ? v.getLoc() : known->second;
  if (known != places.end() && !rt::nameOf(loc).empty())
    return loc; // a place of its own
  std::string name = nameOf(v);
  Operation *made = namesake(v).getDefiningOp();
  if (name.empty() && made && !isa<rt::GroupOp>(v.getDefiningOp())) {
    auto combine = dyn_cast<dist::CombineOp>(made);
    name = (combine ? stringifyCombination(combine.getKind()) : made->getName().stripDialect()).str();
  }
  return name.empty() ? loc : Location(NameLoc::get(b.getStringAttr(name), loc));
}
