// What workers hold apart and hand in, and what makes the columns of a factor orthogonal.
#include "ir/ech/ops/Check.h"

using namespace mlir;
using namespace echelon::ech;

Axis PerWorkerOp::workers() { return tensor(getResult()).getAxes().front(); }

LogicalResult PerWorkerOp::verify() {
  Tensor from = tensor(getOperand()), to = tensor(getResult());
  if (to.rank() == 0 || from.has(to.getAxes().front().name.getValue()))
    return emitOpError() << "adds an axis of workers, the slowest, to " << describe(from) << ", and gives "
                         << describe(to);
  SmallVector<Axis> axes(from.getAxes());
  axes.push_back(workers());
  if (failed(checkReal(*this, from, "the operand")) || failed(checkElement(*this, to, from.getElement(), "the result")))
    return failure();
  return checkAxes(*this, to, axes, "the result");
}

LogicalResult HandInOp::verify() {
  Tensor from = tensor(getOperand()), to = tensor(getResult());
  if (from.rank() == 0 || to.rank() == 0)
    return emitOpError() << "takes and gives an axis of workers, the slowest";
  SmallVector<Axis> axes(from.getAxes());
  axes.front().name = to.getAxes().front().name;
  if (failed(checkElement(*this, to, from.getElement(), "the result")))
    return failure();
  return checkAxes(*this, to, axes, "the result");
}

LogicalResult OrthogonalizeOp::verify() {
  Tensor from = tensor(getOperand()), to = tensor(getResult());
  if (failed(checkHas(*this, getOver(), from, "the operand")) || failed(checkReal(*this, from, "the operand")) ||
      failed(checkElement(*this, to, from.getElement(), "the result")))
    return failure();
  if (!from.has(getVectors()) || has(getOver(), getVectors()))
    return emitOpError() << "takes vectors along an axis of their own, which " << describe(from) << " has not";
  return checkAxes(*this, to, from.getAxes(), "the result");
}
Division OrthogonalizeOp::division(StringRef axis) {
  return has(getOver(), axis) || axis == getVectors() ? Division::Never : Division::Freely;
}
