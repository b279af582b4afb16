// Convolutions and pooling, on x: (batch…, from…, window…), w: (to…, from…, kernel…), y: (batch…, to…, window…).
#include "passes/lower/Lowering.h"
#include "runtime/kernels/Conv.h"

using namespace mlir;
using namespace echelon;
using namespace echelon::lower;

namespace {
using Axes = SmallVector<Axis>;

int64_t product(ArrayRef<Axis> axes) {
  int64_t n = 1;
  for (const Axis &a : axes)
    n *= a.size;
  return n;
}
Axes joined(std::initializer_list<ArrayRef<Axis>> lists) {
  Axes all;
  for (ArrayRef<Axis> list : lists)
    llvm::append_range(all, list);
  return all;
}
Axes named(Tensor type, ArrayRef<StringRef> names) {
  Axes axes;
  for (StringRef name : names)
    axes.push_back(type.getAxes()[type.position(name)]);
  return axes;
}
Axes others(Tensor type, ArrayRef<StringRef> names) {
  Axes axes;
  for (const Axis &a : type.getAxes())
    if (!llvm::is_contained(names, a.name.getValue()))
      axes.push_back(a);
  return axes;
}

/// What conv and its derivatives share, from the types of x, w and y.
struct Conv {
  SmallVector<StringRef> over, window, kernel;
  Axes batch, from, to, inWindow, outWindow, kernelAxes;
  ArrayRef<int64_t> stride, low, high;

  template <typename Op>
  Conv(Lowering &l, Op op, Value x, Value w, Value y)
      : over(ech::strings(op.getOver())), window(ech::strings(op.getWindow())), kernel(ech::strings(op.getKernel())),
        stride(op.getStride()), low(op.getPadLow()), high(op.getPadHigh()) {
    Tensor tw = l.local(w), ty = l.local(y);
    SmallVector<StringRef> known(over);
    llvm::append_range(known, kernel);
    to = others(tw, known);
    from = named(tw, over);
    kernelAxes = named(tw, kernel);
    SmallVector<StringRef> notBatch(window);
    for (const Axis &a : to)
      notBatch.push_back(a.name);
    batch = others(ty, notBatch);
    outWindow = named(ty, window);
    inWindow = named(l.local(x), window);
  }
  Axes x() const { return joined({batch, from, inWindow}); }
  Axes w() const { return joined({to, from, kernelAxes}); }
  Axes y() const { return joined({batch, to, outWindow}); }
  /// The call, with memory for what the kernel puts into other formats.
  void call(Lowering &l, rt::ConvKind kind, Value result, Value lhs, Value rhs, Location loc) const {
    constexpr runtime::ConvKind kKinds[] = {runtime::ConvKind::forward, runtime::ConvKind::gradData,
                                            runtime::ConvKind::gradWeights};
    Type element = rt::buffer(result).getElement();
    const int64_t bytes = element.getIntOrFloatBitWidth() / 8;
    runtime::ConvShape s{product(batch), product(from), product(to), static_cast<int>(window.size()), {}};
    SmallVector<int64_t> dims;
    for (size_t i = 0; i < window.size(); ++i) {
      dims.append({inWindow[i].size, kernelAxes[i].size, stride[i], low[i], high[i]});
      if (i < runtime::kMaxWindowRank)
        s.dims[i] = {inWindow[i].size, kernelAxes[i].size, stride[i], low[i], high[i]};
    }
    int64_t count = runtime::conv_scratch(kKinds[static_cast<int>(kind)], s, bytes);
    Value scratch =
        l.alloc({{l.b.getStringAttr("scratch"), count}}, element, NameLoc::get(l.b.getStringAttr("scratch"), loc));
    int64_t y = product(batch) * product(to) * product(outWindow),
            w = product(to) * product(from) * product(kernelAxes);
    int64_t x = product(batch) * product(from) * product(inWindow);
    rt::ConvOp::create(l.b, loc, kind, result, lhs, rhs, scratch, l.size(batch), l.size(from), l.size(to), l.list(dims),
                       2 * y * product(from) * product(kernelAxes), (x + w + y) * bytes);
  }
};

LogicalResult lowerConv(Lowering &l, ech::ConvOp op) {
  Conv c(l, op, op.getX(), op.getW(), op.getResult());
  Value x = l.denseAs(l.read(op.getX()), c.x(), op.getLoc()), w = l.denseAs(l.read(op.getW()), c.w(), op.getLoc());
  c.call(l, rt::ConvKind::Forward, l.resultAs(op.getResult(), c.y()), x, w, op.getLoc());
  return success();
}
LogicalResult lowerConvGradX(Lowering &l, ech::ConvGradXOp op) {
  Conv c(l, op, op.getResult(), op.getW(), op.getCotangent());
  Value dy = l.denseAs(l.read(op.getCotangent()), c.y(), op.getLoc());
  Value w = l.denseAs(l.read(op.getW()), c.w(), op.getLoc());
  c.call(l, rt::ConvKind::GradData, l.resultAs(op.getResult(), c.x()), dy, w, op.getLoc());
  return success();
}
LogicalResult lowerConvGradW(Lowering &l, ech::ConvGradWOp op) {
  Conv c(l, op, op.getX(), op.getResult(), op.getCotangent());
  Value dy = l.denseAs(l.read(op.getCotangent()), c.y(), op.getLoc());
  Value x = l.denseAs(l.read(op.getX()), c.x(), op.getLoc());
  c.call(l, rt::ConvKind::GradWeights, l.resultAs(op.getResult(), c.w()), x, dy, op.getLoc());
  return success();
}

/// x: (planes, window…), y alike.
template <typename Op> struct Pool {
  Axes planes, in, out;
  Op op;
  Pool(Lowering &l, Op op, Value x, Value y) : op(op) {
    auto window = ech::strings(op.getWindow());
    planes = others(l.local(x), window);
    in = named(l.local(x), window);
    out = named(l.local(y), window);
  }
  SmallVector<int64_t> dims() const {
    Op o = op;
    SmallVector<int64_t> dims;
    for (size_t i = 0; i < in.size(); ++i) {
      // what the windows do not reach is no part of them: the high padding follows from the size of y
      int64_t high = (out[i].size - 1) * o.getStride()[i] + o.getSize()[i] - in[i].size - o.getPad()[i];
      dims.append({in[i].size, o.getSize()[i], o.getStride()[i], o.getPad()[i], high});
    }
    return dims;
  }
};

LogicalResult lowerPool(Lowering &l, ech::PoolOp op) {
  Pool<ech::PoolOp> p(l, op, op.getOperand(), op.getResult());
  Value x = l.denseAs(l.read(op.getOperand()), joined({p.planes, p.in}), op.getLoc());
  Value y = l.resultAs(op.getResult(), joined({p.planes, p.out}));
  bool max = op.getKind() == ech::Pooling::Max;
  rt::PoolOp::create(l.b, op.getLoc(), max, y, Value(), x, l.size(p.planes), l.list(p.dims()));
  return success();
}

LogicalResult lowerPoolGrad(Lowering &l, ech::PoolGradOp op) {
  Location loc = op.getLoc();
  Pool<ech::PoolGradOp> p(l, op, op.getOperand(), op.getCotangent());
  Value dy = l.denseAs(l.read(op.getCotangent()), joined({p.planes, p.out}), loc);
  if (op.getKind() != ech::Pooling::Max) {
    Value dx = l.resultAs(op.getResult(), joined({p.planes, p.in}));
    rt::PoolGradOp::create(l.b, loc, dx, dy, Value(), l.size(p.planes), l.list(p.dims()));
    return success();
  }
  // where the maxima lie is found again
  Value x = l.denseAs(l.read(op.getOperand()), joined({p.planes, p.in}), loc);
  auto name = [&](StringRef text) { return NameLoc::get(l.b.getStringAttr(text), loc); };
  Value y = l.alloc(joined({p.planes, p.out}), rt::buffer(x).getElement(), name("maxima"));
  Value index = l.alloc(joined({p.planes, p.out}), l.b.getI32Type(), name("places"));
  rt::PoolOp::create(l.b, loc, true, y, index, x, l.size(p.planes), l.list(p.dims()));
  Value dx = l.resultAs(op.getResult(), joined({p.planes, p.in}));
  rt::PoolGradOp::create(l.b, loc, dx, dy, index, l.size(p.planes), l.list(p.dims()));
  return success();
}
} // namespace

void echelon::lower::addWindows(Lowering &l) {
  l.add<ech::ConvOp>(lowerConv);
  l.add<ech::ConvGradXOp>(lowerConvGradX);
  l.add<ech::ConvGradWOp>(lowerConvGradW);
  l.add<ech::PoolOp>(lowerPool);
  l.add<ech::PoolGradOp>(lowerPoolGrad);
}
