#include "test/interpret/Windows.h"
#include "test/interpret/Algebra.h"
#include <limits>

using namespace mlir;
using namespace echelon::ech;
using namespace echelon::interpret;

/// The element of x that a window sees; negative in the border. `inside`: by what name the walk knows the place in the
/// window, for each axis of it.
static int64_t placeSeen(const Walk &walk, const Array &x, ArrayRef<StringRef> window, ArrayRef<std::string> inside,
                         ArrayRef<int64_t> stride, ArrayRef<int64_t> border) {
  return placeIn(x, [&](StringRef axis) {
    auto *at = llvm::find(window, axis);
    if (at == window.end())
      return walk.coordinate(axis);
    size_t i = at - window.begin();
    return walk.coordinate(axis) * stride[i] + walk.coordinate(inside[i]) - border[i];
  });
}

/// All three of a convolution's operations visit (place in x, place in w, place in y) once each.
template <typename Op, typename Visit>
static void conv(Op op, const Array &x, const Array &w, const Array &y, Visit visit) {
  SmallVector<std::pair<std::string, int64_t>> more;
  for (auto name : op.getOver().template getAsRange<StringAttr>())
    more.push_back({name.str(), w.sizeOf(name)});
  SmallVector<std::string> inside;
  for (StringRef k : strings(op.getKernel())) {
    inside.push_back(k.str());
    more.push_back({k.str(), w.sizeOf(k)});
  }
  SmallVector<StringRef> window = strings(op.getWindow());
  Walk walk = walkWith(y, more);
  walk.run([&] {
    int64_t inX = placeSeen(walk, x, window, inside, op.getStride(), op.getPadLow());
    if (inX >= 0)
      visit(inX, placeIn(w, [&](StringRef axis) { return walk.coordinate(axis); }), walk.at(0));
  });
}

template <typename Op, typename Visit> static void pool(Op op, const Array &x, const Array &y, Visit visit) {
  SmallVector<StringRef> window = strings(op.getWindow());
  SmallVector<std::pair<std::string, int64_t>> more;
  SmallVector<std::string> inside;
  for (auto [axis, size] : llvm::zip(window, op.getSize())) {
    inside.push_back("in " + axis.str());
    more.push_back({inside.back(), size});
  }
  Walk walk = walkWith(y, more);
  walk.run([&] {
    int64_t inX = placeSeen(walk, x, window, inside, op.getStride(), op.getPad());
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
