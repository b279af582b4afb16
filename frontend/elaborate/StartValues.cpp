#include "frontend/elaborate/StartValues.h"
#include "frontend/elaborate/Fold.h"

using namespace mlir;
using namespace echelon::frontend;
namespace ech = echelon::ech;

using Parameters = llvm::DenseMap<StringAttr, ech::VariableOp>;

std::optional<double> echelon::frontend::numberOf(Value value) {
  auto constant = value.getDefiningOp<ech::ConstantOp>();
  return constant ? std::optional(constant.getValue().convertToDouble()) : std::nullopt;
}

static std::optional<double> startOf(Value value, const Parameters &parameters, unsigned depth) {
  if (depth > 16)
    return std::nullopt;
  if (auto argument = dyn_cast<BlockArgument>(value)) {
    auto loop = cast<ech::RepeatOp>(argument.getOwner()->getParentOp());
    const size_t carriedOnes = loop.getCarried().size();
    if (argument.getArgNumber() < carriedOnes)
      return std::nullopt;
    return startOf(loop.getSlices()[argument.getArgNumber() - carriedOnes], parameters, depth + 1);
  }
  Operation *op = value.getDefiningOp();
  if (auto read = dyn_cast<ech::ReadOp>(op)) {
    ech::VariableOp variable = parameters.lookup(read.getSourceAttr().getAttr());
    if (!variable || variable.getInit() != ech::Distribution::Constant)
      return std::nullopt;
    return variable.getA().convertToDouble();
  }
  if (auto constant = numberOf(value))
    return constant;
  if (isa<ech::ExpandOp, ech::RelabelOp, ech::PickOp, ech::SliceOp>(op))
    return startOf(op->getOperand(0), parameters, depth + 1);
  auto map = dyn_cast<ech::MapOp>(op);
  if (!map)
    return std::nullopt;
  llvm::SmallVector<double> operands;
  for (Value operand : map.getOperands()) {
    auto start = startOf(operand, parameters, depth + 1);
    if (!start)
      return std::nullopt;
    operands.push_back(*start);
  }
  return fold(map.getFunction(), operands);
}

std::optional<double> echelon::frontend::startOf(Value value, const Parameters &parameters) {
  return ::startOf(value, parameters, 0);
}
