// Values at indices, and the derivative: values added at indices.
#include "ir/ech/ops/Check.h"
#include "ir/ech/ops/Derive.h"

using namespace mlir;
using namespace echelon::ech;

namespace {
/// The axes of table[axes = indices].
SmallVector<Axis> gathered(Tensor table, ArrayAttr axes, OperandRange indices) {
  SmallVector<Type> types(indices.getTypes());
  types.push_back(table.withAxes(axesWithout(table, axes)));
  return unionOfAxes(types);
}
LogicalResult checkIndices(Operation *op, Tensor table, ArrayAttr axes, OperandRange indices) {
  if (axes.size() != indices.size())
    return op->emitOpError() << "needs one index for each gathered axis: " << axes.size() << " axes, " << indices.size()
                             << " indices";
  for (Value v : indices) {
    if (failed(checkElement(op, tensor(v), IntegerType::get(op->getContext(), 32), "an index")))
      return failure();
    for (auto axis : axes.getAsRange<StringAttr>())
      if (tensor(v).has(axis))
        return op->emitOpError() << "an index has the gathered axis " << axis.getValue() << " itself";
  }
  SmallVector<Type> types(indices.getTypes());
  types.push_back(table);
  if (failed(checkSizesAgree(op, types)))
    return failure();
  return checkHas(op, axes, table, "the table");
}
} // namespace

LogicalResult GatherOp::verify() {
  Tensor table = tensor(getTable());
  if (failed(checkIndices(*this, table, getAxes(), getIndices())) ||
      failed(checkElement(*this, tensor(getResult()), table.getElement(), "the result")))
    return failure();
  return checkAxes(*this, tensor(getResult()), gathered(table, getAxes(), getIndices()), "the result");
}
// Positions are logical: padding is never among them.
Padding GatherOp::padding(unsigned, StringRef) { return {}; }
SmallVector<Value> GatherOp::derive(Build &build, ArrayRef<Value> cotangents, ArrayRef<bool> wanted) {
  SmallVector<Value> result(1 + getIndices().size());
  if (wanted[0])
    result[0] = build.scatterAdd(cotangents[0], strings(getAxes()), getIndices(), tensor(getTable()));
  return result;
}

LogicalResult ScatterAddOp::verify() {
  Tensor table = tensor(getResult());
  if (failed(checkIndices(*this, table, getAxes(), getIndices())))
    return failure();
  return checkAxes(*this, tensor(getValues()), gathered(table, getAxes(), getIndices()), "the values");
}

// In the table and in the values, not in indices.
Linearity GatherOp::linearIn(ArrayRef<bool> partial) { return {!llvm::is_contained(partial.drop_front(), true)}; }
Linearity ScatterAddOp::linearIn(ArrayRef<bool> partial) { return {!llvm::is_contained(partial.drop_front(), true)}; }
bool GatherOp::takesPositions(StringRef axis) { return has(getAxes(), axis); }
bool ScatterAddOp::takesPositions(StringRef axis) { return has(getAxes(), axis); }
