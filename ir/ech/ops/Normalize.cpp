// Norms: zero mean and unit variance (or unit mean square) over axes.
#include "ir/ech/ops/Check.h"
#include "ir/ech/ops/Derive.h"

using namespace mlir;
using namespace echelon::ech;

LogicalResult NormalizeOp::verify() {
  Tensor operand = tensor(getOperand());
  if (failed(checkHas(*this, getOver(), operand, "the operand")) || failed(checkReal(*this, operand, "the operand")) ||
      failed(checkAxes(*this, tensor(getResult()), operand.getAxes(), "the result")) ||
      failed(checkElement(*this, tensor(getResult()), operand.getElement(), "the result")))
    return failure();
  for (Value statistic : {getRstd(), getMean(), getVariance(), getMeanLow()})
    if (failed(checkAxes(*this, tensor(statistic), axesWithout(operand, getOver()), "a statistic")) ||
        failed(checkElement(*this, tensor(statistic), operand.getElement(), "a statistic")))
      return failure();
  return success();
}
Division NormalizeOp::division(StringRef axis) { return has(getOver(), axis) ? Division::Inside : Division::Freely; }

// The result's cotangent goes through one operation. With c = x - mean = y / rstd and n elements:
// dmean / n, dvariance 2 c / n, and rstd = (variance + eps)^(-1/2) as -rstd^3 / 2 of a variance.
SmallVector<Value> NormalizeOp::derive(Build &build, ArrayRef<Value> cotangents, ArrayRef<bool>) {
  SmallVector<StringRef> over = strings(getOver());
  auto mark = [&](Value v) { // what belongs to statistics of one micro batch is of that micro batch, too
    if ((*this)->hasAttr(kLocal))
      v.getDefiningOp()->setAttr(kLocal, build.builder.getUnitAttr());
    return v;
  };
  auto count = [&] { return mark(build.count(over, tensor(getOperand()))); };
  Value dx;
  auto add = [&](Value v) { dx = dx ? build.add(dx, v) : v; };
  if (cotangents[0])
    add(mark(build.normalizeGrad(cotangents[0], getResult(), getRstd(), over, getRms())));
  Value dVariance = cotangents[3];
  if (cotangents[1]) {
    Value cube = build.mul(build.mul(getRstd(), getRstd()), getRstd());
    Value d = build.mul(build.mul(cotangents[1], cube), build.constant(-0.5));
    dVariance = dVariance ? build.add(dVariance, d) : d;
  }
  if (dVariance) {
    Value scale = build.div(build.mul(dVariance, build.constant(2)), count());
    add(build.mul(build.div(getResult(), getRstd()), scale));
  }
  if (cotangents[2])
    add(build.expand(build.div(cotangents[2], count()), tensor(getOperand())));
  return {dx ? inOrder(build, dx, tensor(getOperand())) : Value()};
}

LogicalResult NormalizeGradOp::verify() {
  Tensor result = tensor(getResult());
  if (failed(checkHas(*this, getOver(), result, "the normalized value")) ||
      failed(checkAxes(*this, tensor(getCotangent()), result.getAxes(), "the cotangent")) ||
      failed(checkAxes(*this, tensor(getRstd()), axesWithout(result, getOver()), "rstd")))
    return failure();
  return checkAxes(*this, tensor(getOperandCotangent()), result.getAxes(), "the operand's cotangent");
}
Division NormalizeGradOp::division(StringRef axis) {
  return has(getOver(), axis) ? Division::Inside : Division::Freely;
}
