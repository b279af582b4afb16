// Convolution by names, and its two derivatives. All three walk the same space: result positions times kernel
// positions times summed axes.
#include "ir/ech/ops/Check.h"
#include "ir/ech/ops/Derive.h"

using namespace mlir;
using namespace echelon::ech;

namespace {
/// The three tensors of a convolution and how its windows stand, whichever of the three is the result.
struct Windows {
  Tensor x, w, y;
  ArrayAttr over, window, kernel;
  ArrayRef<int64_t> stride, low, high;
};
template <typename Op> Windows windows(Op op, Value x, Value w, Value y) {
  return {tensor(x),      tensor(w),      tensor(y),      op.getOver(),   op.getWindow(),
          op.getKernel(), op.getStride(), op.getPadLow(), op.getPadHigh()};
}

LogicalResult checkWindows(Operation *op, const Windows &c) {
  size_t n = c.window.size();
  if (c.kernel.size() != n || c.stride.size() != n || c.low.size() != n || c.high.size() != n)
    return op->emitOpError() << "needs a kernel axis, a stride and two paddings for each of its " << n
                             << " window axes";
  if (failed(checkHas(op, c.window, c.x, "x")) || failed(checkHas(op, c.kernel, c.w, "w")) ||
      failed(checkHas(op, c.over, c.x, "x")) || failed(checkHas(op, c.over, c.w, "w")) ||
      failed(checkSizesAgree(op, {c.x, c.w})) || failed(checkReal(op, c.x, "x")) ||
      failed(checkElement(op, c.w, c.x.getElement(), "w")) || failed(checkElement(op, c.y, c.x.getElement(), "y")))
    return failure();
  SmallVector<Axis> axes; // of the result
  for (const Axis &a : c.x.getAxes()) {
    if (has(c.over, a.name))
      continue;
    int64_t size = a.size;
    for (size_t i = 0; i < n; ++i)
      if (cast<StringAttr>(c.window[i]) == a.name) {
        int64_t k = c.w.sizeOf(cast<StringAttr>(c.kernel[i]));
        int64_t room = size + c.low[i] + c.high[i] - k;
        if (c.stride[i] < 1 || room < 0)
          return op->emitOpError() << "a window of " << k << " does not fit into " << a.name.getValue() << " = "
                                   << a.size << " padded by " << c.low[i] << " and " << c.high[i];
        size = room / c.stride[i] + 1;
      }
    axes.push_back({a.name, size});
  }
  for (const Axis &a : c.w.getAxes()) {
    if (has(c.over, a.name) || has(c.kernel, a.name))
      continue;
    if (c.x.has(a.name))
      return op->emitOpError() << "x and w share axis " << a.name.getValue() << ", which is not summed";
    axes.push_back(a);
  }
  return checkAxes(op, c.y, axes, "y");
}

Division divideWindows(StringRef axis, ArrayAttr window, ArrayAttr kernel) {
  return has(window, axis) || has(kernel, axis) ? Division::Never : Division::Freely;
}

int64_t flopsOf(Tensor y, Tensor w, ArrayAttr over, ArrayAttr kernel) {
  int64_t points = y.count();
  for (ArrayAttr names : {over, kernel})
    for (auto name : names.getAsRange<StringAttr>())
      points *= w.sizeOf(name);
  return 2 * points;
}
} // namespace

LogicalResult ConvOp::verify() { return checkWindows(*this, windows(*this, getX(), getW(), getResult())); }
LogicalResult ConvGradXOp::verify() { return checkWindows(*this, windows(*this, getResult(), getW(), getCotangent())); }
LogicalResult ConvGradWOp::verify() { return checkWindows(*this, windows(*this, getX(), getResult(), getCotangent())); }

Division ConvOp::division(StringRef axis) { return divideWindows(axis, getWindow(), getKernel()); }
Division ConvGradXOp::division(StringRef axis) { return divideWindows(axis, getWindow(), getKernel()); }
Division ConvGradWOp::division(StringRef axis) { return divideWindows(axis, getWindow(), getKernel()); }

int64_t ConvOp::flops() { return flopsOf(tensor(getResult()), tensor(getW()), getOver(), getKernel()); }
int64_t ConvGradXOp::flops() { return flopsOf(tensor(getCotangent()), tensor(getW()), getOver(), getKernel()); }
int64_t ConvGradWOp::flops() { return flopsOf(tensor(getCotangent()), tensor(getResult()), getOver(), getKernel()); }

SmallVector<Value> ConvOp::derive(Build &build, ArrayRef<Value> cotangents, ArrayRef<bool> wanted) {
  SmallVector<StringRef> over = strings(getOver());
  Build::Window window{strings(getWindow()), strings(getKernel()), SmallVector<int64_t>(getStride()),
                       SmallVector<int64_t>(getPadLow()), SmallVector<int64_t>(getPadHigh())};
  Value d = cotangents[0];
  return {wanted[0] ? build.convGradX(d, getW(), over, window, tensor(getX())) : Value(),
          wanted[1] ? build.convGradW(d, getX(), over, window, tensor(getW())) : Value()};
}
