// What makes values from nothing, and what a step reads and writes.
#include "ir/ech/ops/Check.h"

using namespace mlir;
using namespace echelon::ech;

//===- variables and inputs --------------------------------------------------------------------------------------===//

namespace {
/// The variable or input that a name stands for has the axes of `type`.
LogicalResult checkSymbol(Operation *op, FlatSymbolRefAttr name, Tensor type, bool inputs,
                          SymbolTableCollection &tables) {
  Operation *symbol = tables.lookupNearestSymbolFrom(op, name);
  if (auto variable = llvm::dyn_cast_or_null<VariableOp>(symbol))
    return checkAxes(op, type, llvm::cast<Tensor>(variable.getType()).getAxes(), "the value");
  if (auto input = llvm::dyn_cast_or_null<InputOp>(symbol); input && inputs)
    return checkAxes(op, type, llvm::cast<Tensor>(input.getType()).getAxes(), "the value");
  return op->emitOpError() << name << " is no variable" << (inputs ? " and no input" : "");
}
} // namespace

LogicalResult VariableOp::verify() {
  auto type = llvm::dyn_cast<Tensor>(getType());
  if (!type)
    return emitOpError() << "is a tensor with named axes, not " << getType();
  if (static_cast<int64_t>(getStacked()) > type.rank())
    return emitOpError() << "is stacked along " << getStacked() << " axes, and has " << type.rank();
  return checkReal(*this, type, "a variable");
}
LogicalResult InputOp::verify() {
  if (!llvm::isa<Tensor>(getType()))
    return emitOpError() << "is a tensor with named axes, not " << getType();
  return success();
}
LogicalResult ReadOp::verifySymbolUses(SymbolTableCollection &tables) {
  // Layout reads an input under other names (micro batches: [batch] as [micro, batch]); then the elements are as many.
  if (auto input = tables.lookupNearestSymbolFrom<InputOp>(*this, getSourceAttr());
      input && (*this)->hasAttr(kReadFrom)) {
    if (llvm::cast<Tensor>(input.getType()).count() != tensor(getValue()).count())
      return emitOpError() << "of " << getSource() << " has another number of elements under other names";
    return success();
  }
  return checkSymbol(*this, getSourceAttr(), tensor(getValue()), /*inputs=*/true, tables);
}
LogicalResult WriteOp::verifySymbolUses(SymbolTableCollection &tables) {
  return checkSymbol(*this, getTargetAttr(), tensor(getValue()), /*inputs=*/false, tables);
}
LogicalResult GradientOp::verifySymbolUses(SymbolTableCollection &tables) {
  return checkSymbol(*this, getParameterAttr(), tensor(getValue()), /*inputs=*/false, tables);
}
LogicalResult ReportOp::verify() {
  if (failed(checkReal(*this, tensor(getValue()), "a reported value")))
    return failure();
  return checkAxes(*this, tensor(getValue()), {}, "a reported value");
}

Freedom ReadOp::freedom() {
  return isa_and_nonnull<InputOp>(SymbolTable::lookupNearestSymbolFrom(*this, getSourceAttr())) ? Freedom::Source
                                                                                                : Freedom::Never;
}

//===- numbers, positions, random values -------------------------------------------------------------------------===//

OpFoldResult ConstantOp::fold(FoldAdaptor) { return getValueAttr(); }

LogicalResult IndexOp::verify() {
  Tensor type = tensor(getResult());
  if (type.rank() != 1 || !type.has(getAxis()))
    return emitOpError() << "along " << getAxis() << " has that axis alone, not " << describe(type);
  return checkElement(*this, type, IntegerType::get(getContext(), 32), "an index");
}
LogicalResult PositionOp::verify() {
  for (Operation *parent = (*this)->getParentOp(); parent; parent = parent->getParentOp())
    if (auto repeat = dyn_cast<RepeatOp>(parent); repeat && repeat.getAxis() == getAxis()) {
      if (failed(checkAxes(*this, tensor(getResult()), {}, "a position")))
        return failure();
      return checkElement(*this, tensor(getResult()), IntegerType::get(getContext(), 32), "a position");
    }
  return emitOpError() << "is in no repeat over " << getAxis();
}

LogicalResult CountOp::verify() {
  if (getOver().size() != getSizes().size())
    return emitOpError() << "has one size an axis: " << getOver().size() << " axes, " << getSizes().size() << " sizes";
  return checkAxes(*this, tensor(getResult()), {}, "a count");
}
LogicalResult ScalarOp::verify() {
  if (!llvm::is_contained({"learning_rate", "bias_correction", "average_decay", "loss_scale", "step", "samples",
                           "hand_in_weight", "is_first_in", "hand_in_worker"},
                          getName()))
    return emitOpError() << "is a number that the run provides, and no run provides " << getName();
  return checkAxes(*this, tensor(getResult()), {}, "a number of the run");
}
LogicalResult RandomOp::verify() {
  if (getDistribution() == Distribution::Constant)
    return emitOpError() << "draws from a distribution, and a constant is none";
  return checkReal(*this, tensor(getResult()), "a random value");
}

Freedom ConstantOp::freedom() { return Freedom::Source; }
Freedom CountOp::freedom() { return Freedom::Source; }
Freedom ScalarOp::freedom() { return Freedom::Source; }
Freedom IndexOp::freedom() { return Freedom::Source; }
Freedom PositionOp::freedom() { return Freedom::Source; }
Freedom RandomOp::freedom() { return Freedom::Source; }
