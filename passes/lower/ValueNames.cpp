// What a value is called where the spec gives it no name of its own: after the result that it is (rstd, log_sum), after
// what a repeat yields, else after its operation.
#include "passes/Phase.h"
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
  static constexpr StringRef kAttention[] = {"", "attention_max", "attention_sum"};
  static constexpr StringRef kAttentionGrad[] = {"d_query", "d_key", "d_value", "d_bias"};
  return llvm::TypeSwitch<Operation *, StringRef>(op)
      .Case([&](ech::NormalizeOp) { return kNorm[result]; })
      .Case<ech::LogSumExpOp, ech::CrossEntropyOp>([&](auto) { return kLogSumExp[result]; })
      .Case([&](ech::AttentionOp) { return kAttention[result]; })
      .Case([&](ech::AttentionGradOp) { return kAttentionGrad[result]; })
      .Case<dist::PartialOp, dist::CombineOp>([&](auto each) { return each.nameOf(result); })
      .Default(StringRef());
}

/// What the result of an operation is called that nobody named: what it is.
StringRef nounOf(Operation *op) {
  return llvm::TypeSwitch<Operation *, StringRef>(op)
      .Case<ech::DotOp, dist::LinearOp>([](auto) { return "product"; })
      .Case([](ech::MapOp map) {
        return map.getNumOperands() == 1 && map.getFunction() != ech::Function::Cast
                   ? ech::stringifyFunction(map.getFunction())
                   : StringRef("value");
      })
      .Case([](ech::ReduceOp reduce) {
        return reduce.getKind() == ech::Reduction::Sum   ? "sum"
               : reduce.getKind() == ech::Reduction::Max ? "largest"
                                                         : "smallest";
      })
      .Case([](ech::CrossEntropyOp) { return "row_loss"; })
      .Case([](ech::ArgMaxOp) { return "index_of_max"; })
      .Case([](ech::SoftmaxOp) { return "probabilities"; })
      .Case([](ech::LogSumExpOp) { return "log_sum_exp"; })
      .Case([](ech::NormalizeOp) { return "normalized"; })
      .Case([](ech::NormalizeGradOp) { return "d_input"; })
      .Case([](ech::GatherOp) { return "rows"; })
      .Case([](ech::ScatterAddOp) { return "table"; })
      .Case([](ech::AttentionOp) { return "attended"; })
      .Case<ech::ConvOp, ech::ConvGradXOp, ech::ConvGradWOp>([](auto) { return "convolved"; })
      .Case<ech::PoolOp, ech::PoolGradOp>([](auto) { return "pooled"; })
      .Case([](ech::ConcatOp) { return "joined"; })
      .Case([](ech::PadOp) { return "padded"; })
      .Case([](ech::RandomOp) { return "drawn"; })
      .Case([](dist::CombineOp combine) {
        switch (combine.getKind()) {
        case dist::Combination::CrossEntropy:
          return StringRef("row_loss");
        case dist::Combination::ArgMax:
          return StringRef("index_of_max");
        case dist::Combination::Softmax:
          return StringRef("probabilities");
        case dist::Combination::Normalize:
        case dist::Combination::RmsNormalize:
          return StringRef("normalized");
        case dist::Combination::NormalizeGrad:
        case dist::Combination::RmsGrad:
          return StringRef("d_input");
        default:
          return stringifyCombination(combine.getKind());
        }
      })
      .Default([](Operation *op) { return op->getName().stripDialect(); });
}

/// What the log calls a value that becomes a number that is reported, and nothing else; empty: it does not. Sums over
/// batches become one through what divides them, too.
StringRef reportedAs(Value v, bool isSum) {
  if (!v.hasOneUse())
    return "";
  OpOperand &use = *v.use_begin();
  Operation *user = use.getOwner();
  return llvm::TypeSwitch<Operation *, StringRef>(user)
      .Case([](ech::ReportOp report) { return report.getName(); })
      .Case([&](dist::AllReduceOp message) { return reportedAs(message.getResults()[use.getOperandNumber()], isSum); })
      .Case([&](ech::MapOp map) { return isSum ? reportedAs(map.getResult(), isSum) : StringRef(); })
      .Case([&](rt::GroupOp group) {
        return isSum ? reportedAs(group.getBody().front().getArgument(use.getOperandNumber()), isSum) : StringRef();
      })
      .Case<rt::YieldOp, dist::YieldOp>(
          [&](auto yield) { return reportedAs(yield->getParentOp()->getResult(use.getOperandNumber()), isSum); })
      .Default([](Operation *) { return StringRef(); });
}

/// The value that another one is called after: what a loop yields, what only gets other names for its axes.
Value namesake(Value v) {
  auto result = dyn_cast<OpResult>(v);
  if (!result)
    return v;
  if (auto loop = dyn_cast<ech::RepeatOp>(result.getOwner()))
    return namesake(loop.yield()->getOperand(result.getResultNumber()));
  if (auto at = dyn_cast<dist::AtOp>(result.getOwner()))
    return namesake(at.yield()->getOperand(result.getResultNumber()));
  if (auto receive = dyn_cast<dist::ReceiveOp>(result.getOwner()))
    return namesake(receive.getValue());
  if (auto group = dyn_cast<rt::GroupOp>(result.getOwner()))
    return namesake(group.getBody().front().getTerminator()->getOperand(result.getResultNumber()));
  if (auto relabel = dyn_cast<ech::RelabelOp>(result.getOwner()); relabel && rt::nameOf(relabel.getLoc()).empty())
    return namesake(relabel.getOperand());
  return v;
}

/// A name after the path of the call that a place is in; of derivatives, "d_" comes before both.
std::string inCall(Location loc, StringRef name) {
  StringRef call = rt::callOf(loc);
  const bool isDerivative = call.consume_front("d_");
  if (call.empty())
    return name.str();
  return (name.consume_front("d_") || isDerivative ? "d_" : "") + (call + name).str();
}

/// The name of a value with the path of its call before it; empty: it has none.
std::string pathOf(Value v) {
  v = namesake(v);
  if (auto result = dyn_cast<OpResult>(v))
    if (StringRef name = nameOfResult(result.getOwner(), result.getResultNumber()); !name.empty())
      return inCall(v.getLoc(), name);
  return rt::nameOf(v.getLoc()).str();
}
} // namespace

std::string echelon::lower::nameOf(Value v) { return shortName(pathOf(v)); }

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
  std::string name = pathOf(v);
  Operation *made = namesake(v).getDefiningOp();
  if (name.empty())
    name = reportedAs(v, isa_and_nonnull<ech::RepeatOp>(v.getDefiningOp())).str();
  if (name.empty() && made)
    name = inCall(made->getLoc(), nounOf(made));
  Operation *def = v.getDefiningOp();
  if (!name.empty() && def && isOfBackward(def) && !StringRef(name).starts_with("d_"))
    name = "d_" + name; // of a value named x, what the backward pass makes is called d_x
  return name.empty() ? loc : Location(NameLoc::get(b.getStringAttr(name), loc));
}
