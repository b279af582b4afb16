#include "frontend/elaborate/SumUses.h"

using namespace mlir;
using namespace echelon::frontend;
namespace ech = echelon::ech;
using ech::Function;

bool SumUses::isTakenOut(Value sum, Value of) const {
  return llvm::any_of(sum.getUsers(), [&](Operation *user) {
    if (isa<ech::ExpandOp>(user))
      return isTakenOut(user->getResult(0), of);
    auto map = dyn_cast<ech::MapOp>(user);
    if (!map)
      return false;
    auto operand = [&](unsigned i) { return map.getOperands()[i]; };
    switch (map.getFunction()) {
    case Function::Sub:
      return operand(0) == of && operand(1) == sum;
    case Function::Mul:
      return isNumbers(operand(operand(0) == sum ? 1 : 0)) && isTakenOut(map.getResult(), of);
    case Function::Div:
      return operand(1) == sum ? operand(0) == of : isNumbers(operand(1)) && isTakenOut(map.getResult(), of);
    default:
      return false;
    }
  });
}

bool SumUses::endsInAverage(Value value) {
  if (auto it = averaged.find(value); it != averaged.end())
    return it->second;
  const bool ends = !value.use_empty() && hasLinearUsersAlone(value);
  return averaged[value] = ends;
}

bool SumUses::hasLinearUsersAlone(Value value) {
  return llvm::all_of(value.getUsers(), [&](Operation *user) {
    if (auto reduce = dyn_cast<ech::ReduceOp>(user))
      return reduce.getKind() == ech::Reduction::Sum &&
             (llvm::any_of(reduce.getOver().getAsRange<StringAttr>(),
                           [&](StringAttr axis) { return samples.contains(axis.getValue()); }) ||
              endsInAverage(reduce.getResult()));
    auto map = dyn_cast<ech::MapOp>(user);
    if (!map)
      return isa<ech::ReportOp>(user);
    auto isNumber = [&](unsigned i) { return isNumbers(map.getOperands()[i]); };
    switch (map.getFunction()) {
    case Function::Neg:
    case Function::Add:
    case Function::Sub:
      return endsInAverage(map.getResult());
    case Function::Mul:
      return (isNumber(0) || isNumber(1)) && endsInAverage(map.getResult());
    case Function::Div:
      return isNumber(1) && endsInAverage(map.getResult());
    default:
      return false;
    }
  });
}
