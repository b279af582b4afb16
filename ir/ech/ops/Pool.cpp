// Maximum or mean over windows, and the derivative.
#include "ir/ech/ops/Check.h"
#include "ir/ech/ops/Derive.h"

using namespace mlir;
using namespace echelon::ech;

namespace {
template <typename Op> LogicalResult checkPool(Op op, Tensor x, Tensor y) {
  ArrayAttr window = op.getWindow();
  size_t n = window.size();
  if (op.getSize().size() != n || op.getStride().size() != n || op.getPad().size() != n)
    return op.emitOpError() << "needs a size, a stride and a padding for each of its " << n << " window axes";
  if (failed(checkHas(op, window, x, "the operand")) || failed(checkReal(op, x, "the operand")))
    return failure();
  SmallVector<Axis> axes(x.getAxes());
  for (Axis &a : axes)
    for (size_t i = 0; i < n; ++i)
      if (cast<StringAttr>(window[i]) == a.name) {
        int64_t room = a.size + 2 * op.getPad()[i] - op.getSize()[i];
        if (op.getStride()[i] < 1 || room < 0)
          return op.emitOpError() << "a window of " << op.getSize()[i] << " does not fit into " << a.name.getValue()
                                  << " = " << a.size << " padded by " << op.getPad()[i];
        a.size = room / op.getStride()[i] + 1;
      }
  if (failed(checkElement(op, y, x.getElement(), "the pooled value")))
    return failure();
  return checkAxes(op, y, axes, "the pooled value");
}
template <typename Op> int64_t points(Op op, Tensor y) {
  int64_t n = y.count();
  for (int64_t size : op.getSize())
    n *= size;
  return n;
}
} // namespace

LogicalResult PoolOp::verify() { return checkPool(*this, tensor(getOperand()), tensor(getResult())); }
LogicalResult PoolGradOp::verify() {
  if (failed(checkAxes(*this, tensor(getResult()), tensor(getOperand()).getAxes(), "the result")))
    return failure();
  return checkPool(*this, tensor(getOperand()), tensor(getCotangent()));
}
Division PoolOp::division(StringRef axis) { return has(getWindow(), axis) ? Division::Never : Division::Freely; }
Division PoolGradOp::division(StringRef axis) { return has(getWindow(), axis) ? Division::Never : Division::Freely; }
int64_t PoolOp::flops() { return points(*this, tensor(getResult())); }
int64_t PoolGradOp::flops() { return points(*this, tensor(getCotangent())); }

SmallVector<Value> PoolOp::derive(Build &build, ArrayRef<Value> cotangents, ArrayRef<bool>) {
  return {PoolGradOp::create(build.builder, build.loc, getOperand().getType(), getKind(), cotangents[0], getOperand(),
                             getWindow(), getSize(), getStride(), getPad())};
}
