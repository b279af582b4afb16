// What an operation may read of padding.
#include "passes/layout/Padding.h"
#include <limits>

using namespace mlir;
using namespace echelon;
using namespace echelon::layout;

PaddingFill echelon::layout::paddingFill(OpOperand &operand, StringRef axis) {
  Operation *op = operand.getOwner();
  auto rule = dyn_cast<ech::AxisRule>(op);
  constexpr double infinity = std::numeric_limits<double>::infinity();
  if (isa<ech::GlobalNormOp>(op))
    return {PaddingNeed::Fill, 0};
  if (!rule)
    return {};
  bool inside = rule.division(axis) == ech::Division::Inside;
  bool kept = llvm::all_of(op->getResults(), [&](Value v) { return ech::tensor(v).has(axis); });
  if (!inside && kept)
    return {};
  if (auto reduce = dyn_cast<ech::ReduceOp>(op))
    return {PaddingNeed::Fill, reduce.getKind() == ech::Reduction::Max   ? -infinity
                               : reduce.getKind() == ech::Reduction::Min ? infinity
                                                                         : 0};
  if (isa<ech::ArgMaxOp, ech::SoftmaxOp, ech::LogSumExpOp>(op))
    return {PaddingNeed::Fill, -infinity};
  if (isa<ech::CrossEntropyOp>(op)) // of a distribution, 0 times the padding's -infinity would be read
    return ech::tensor(op->getOperand(1)).has(axis) ? PaddingFill{PaddingNeed::Unknown, 0}
                                                    : PaddingFill{PaddingNeed::Fill, -infinity};
  if (isa<ech::GatherOp, ech::PickOp>(op)) // positions are logical, padding is never among them
    return {};
  if (inside)
    return {PaddingNeed::Unknown, 0};
  return {PaddingNeed::Fill, 0}; // a sum of products
}
