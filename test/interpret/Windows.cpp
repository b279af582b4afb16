#include "test/interpret/Windows.h"
#include "test/interpret/Algebra.h"
#include <limits>

using namespace mlir;
using namespace echelon::ech;
using namespace echelon::interpret;

/// All three of a convolution's operations visit (place in x, place in w, place in y) once each.
template <typename Op, typename Visit>
static void conv(Op op, const Array &x, const Array &w, const Array &y, Visit visit) {
  SmallVector<std::pair<std::string, int64_t>> more;
  for (auto name : op.getOver().template getAsRange<StringAttr>())
    more.push_back({name.str(), w.sizeOf(name)});
  SmallVector<StringRef> window = strings(op.getWindow()), kernel = strings(op.getKernel());
  for (StringRef k : kernel)
    more.push_back({k.str(), w.sizeOf(k)});
  Walk walk = walkWith(y, more);
  walk.run([&] {
    int64_t inX = placeIn(x, [&](StringRef axis) {
      auto *at = llvm::find(window, axis);
      if (at == window.end())
        return walk.coordinate(axis);
      size_t i = at - window.begin();
      return walk.coordinate(axis) * op.getStride()[i] + walk.coordinate(kernel[i]) - op.getPadLow()[i];
    });
    if (inX >= 0)
      visit(inX, placeIn(w, [&](StringRef axis) { return walk.coordinate(axis); }), walk.at(0));
  });
}

template <typename Op, typename Visit> static void pool(Op op, const Array &x, const Array &y, Visit visit) {
  SmallVector<StringRef> window = strings(op.getWindow());
  SmallVector<std::pair<std::string, int64_t>> more;
  for (auto [axis, size] : llvm::zip(window, op.getSize()))
    more.push_back({"in " + axis.str(), size});
  Walk walk = walkWith(y, more);
  walk.run([&] {
    int64_t inX = placeIn(x, [&](StringRef axis) {
      auto *at = llvm::find(window, axis);
      if (at == window.end())
        return walk.coordinate(axis);
      size_t i = at - window.begin();
      return walk.coordinate(axis) * op.getStride()[i] + walk.coordinate("in " + axis.str()) - op.getPad()[i];
    });
    if (inX >= 0)
      visit(inX, walk.at(0));
  });
}

Array echelon::interpret::computeWindows(ConvOp o, ArrayRef<Array> in, Machine &machine) {
  Array y = Array(machine.shape(o.getResult()));
  conv(o, in[0], in[1], y,
       [&](int64_t x, int64_t w, int64_t at) { y.values[at] += in[0].values[x] * in[1].values[w]; });
  return y;
}

Array echelon::interpret::computeWindows(ConvGradXOp o, ArrayRef<Array> in, Machine &machine) {
  Array dx = Array(machine.shape(o.getResult()));
  conv(o, dx, in[1], in[0],
       [&](int64_t x, int64_t w, int64_t at) { dx.values[x] += in[0].values[at] * in[1].values[w]; });
  return dx;
}

Array echelon::interpret::computeWindows(ConvGradWOp o, ArrayRef<Array> in, Machine &machine) {
  Array dw = Array(machine.shape(o.getResult()));
  conv(o, in[1], dw, in[0],
       [&](int64_t x, int64_t w, int64_t at) { dw.values[w] += in[0].values[at] * in[1].values[x]; });
  return dw;
}

Array echelon::interpret::computeWindows(PoolOp o, ArrayRef<Array> in, Machine &machine) {
  Array y = Array(machine.shape(o.getResult()));
  double n = 1;
  for (int64_t size : o.getSize())
    n *= size;
  if (o.getKind() == Pooling::Max)
    y.values.assign(y.values.size(), -std::numeric_limits<double>::infinity());
  pool(o, in[0], y, [&](int64_t x, int64_t at) {
    double v = in[0].values[x];
    y.values[at] = o.getKind() == Pooling::Max ? std::max(y.values[at], v) : y.values[at] + v / n;
  });
  return y;
}

Array echelon::interpret::computeWindows(PoolGradOp o, ArrayRef<Array> in, Machine &machine) {
  const Array &d = in[0], &x = in[1];
  Array dx = Array(machine.shape(o.getResult()));
  double n = 1;
  for (int64_t size : o.getSize())
    n *= size;
  std::vector<int64_t> best(d.values.size(), -1);
  pool(o, x, d, [&](int64_t from, int64_t at) {
    if (o.getKind() == Pooling::Avg)
      dx.values[from] += d.values[at] / n;
    else if (best[at] < 0 || x.values[from] > x.values[best[at]] ||
             (x.values[from] == x.values[best[at]] && from < best[at]))
      best[at] = from;
  });
  for (size_t at = 0; at < best.size(); ++at)
    if (best[at] >= 0)
      dx.values[best[at]] += d.values[at];
  return dx;
}
