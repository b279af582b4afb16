#include "frontend/elaborate/StartValues.h"
#include <cmath>

using namespace mlir;
using namespace echelon::frontend;
namespace ech = echelon::ech;
using ech::Function;

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
  auto a = startOf(map.getOperands()[0], parameters, depth + 1);
  auto b = map.getOperands().size() > 1 ? startOf(map.getOperands()[1], parameters, depth + 1) : 0;
  if (!a || !b)
    return std::nullopt;
  switch (map.getFunction()) {
  case Function::Cast:
  case Function::StopGradient:
    return *a;
  case Function::Add:
    return *a + *b;
  case Function::Sub:
    return *a - *b;
  case Function::Mul:
    return *a * *b;
  case Function::Div:
    return *a / *b;
  case Function::Neg:
    return -*a;
  case Function::Exp:
    return std::exp(*a);
  case Function::Log:
    return std::log(*a);
  case Function::Sqrt:
    return std::sqrt(*a);
  case Function::Rsqrt:
    return 1 / std::sqrt(*a);
  case Function::Sigmoid:
    return 1 / (1 + std::exp(-*a));
  case Function::Tanh:
    return std::tanh(*a);
  case Function::Abs:
    return std::abs(*a);
  default:
    return std::nullopt;
  }
}

std::optional<double> echelon::frontend::startOf(Value value, const Parameters &parameters) {
  return ::startOf(value, parameters, 0);
}
