// Places within a tensor: picks, slices, renames, expansions as views; their derivatives; concatenation.
#include "passes/lower/Lowering.h"

using namespace mlir;
using namespace echelon;
using namespace echelon::lower;

namespace {
/// value where `axis` is at the logical `position`, else 0.
Value atPosition(Lowering &l, OpBuilder &b, Location loc, Tensor type, StringRef axis, int64_t position, Value value) {
  Type i32 = b.getI32Type(), element = value.getType();
  Value place = l.placeAlong(b, loc, type, axis);
  Value wanted = rt::LiteralOp::create(b, loc, i32, b.getF64FloatAttr(position));
  Value is = rt::ComputeOp::create(b, loc, b.getI1Type(), "eq", ValueRange{place, wanted});
  Value zero = rt::LiteralOp::create(b, loc, element, b.getF64FloatAttr(0));
  return rt::ComputeOp::create(b, loc, element, "select", ValueRange{is, value, zero});
}

LogicalResult lowerPick(Lowering &l, ech::PickOp op) {
  Value x = l.read(op.getOperand());
  Tensor type = ech::tensor(op.getOperand());
  if (!l.beginOf(l.segmentsOf(type, op.getAxis()).front())) {
    l.bind(op.getResult(), l.slice(x, op.getAxis(), op.getPosition(), op.getLoc()));
    return success();
  }
  // one rank has it; the sum over the ranks is still to come
  Value out = l.result(op.getResult());
  l.loop(op.getLoc(), out, x, rt::buffer(x).getAxes(), "sum", [&](OpBuilder &b, ValueRange v) {
    return atPosition(l, b, op.getLoc(), type, op.getAxis(), op.getPosition(), v[0]);
  });
  return success();
}

LogicalResult lowerPlace(Lowering &l, ech::PlaceOp op) {
  Destination destination = l.target(op.getResult());
  l.loop(op.getLoc(), destination.buffer, l.read(op.getOperand()), rt::buffer(destination.buffer).getAxes(),
         destination.adds ? "add" : "store", [&](OpBuilder &b, ValueRange v) {
           return atPosition(l, b, op.getLoc(), ech::tensor(op.getResult()), op.getAxis(), op.getPosition(), v[0]);
         });
  return success();
}

LogicalResult lowerSlice(Lowering &l, ech::SliceOp op) {
  int64_t size = l.local(op.getResult()).sizeOf(op.getAxis());
  l.bind(op.getResult(), l.range(l.read(op.getOperand()), op.getAxis(), op.getStart(), size, op.getLoc()));
  return success();
}

LogicalResult lowerPad(Lowering &l, ech::PadOp op) {
  Value out = l.result(op.getResult(), /*mustBeDense=*/false), x = l.read(op.getOperand());
  StringRef axis = op.getAxis();
  int64_t start = op.getStart(), size = rt::buffer(x).sizeOf(axis), whole = rt::buffer(out).sizeOf(axis);
  auto part = [&](int64_t at, int64_t length) { return l.range(out, axis, at, length, op.getLoc()); };
  if (start > 0)
    l.fill(part(0, start), 0, op.getLoc());
  l.copy(part(start, size), x, op.getLoc());
  if (start + size < whole)
    l.fill(part(start + size, whole - start - size), 0, op.getLoc());
  return success();
}

/// x at every position of the axes that it lacks.
void bindExpanded(Lowering &l, Value operand, Value result, Location loc) {
  Value x = l.read(operand);
  Tensor type = l.local(result);
  SmallVector<int64_t> strides;
  for (const Axis &a : type.getAxes())
    strides.push_back(rt::buffer(x).strideOf(a.name));
  l.bind(result, l.view(x, 0, Buffer::get(l.b.getContext(), type.getAxes(), type.getElement(), strides), loc));
}

LogicalResult lowerExpand(Lowering &l, ech::ExpandOp op) {
  bindExpanded(l, op.getOperand(), op.getResult(), op.getLoc());
  return success();
}

/// Each rank has one worker: its own part of the sum.
LogicalResult lowerPerWorker(Lowering &l, ech::PerWorkerOp op) {
  if (l.local(op.getResult()).getAxes().front().size != 1)
    return l.refuse(op, "is of several workers on one rank, and what each adds does not depend on samples");
  bindExpanded(l, op.getOperand(), op.getResult(), op.getLoc());
  return success();
}

LogicalResult lowerHandIn(Lowering &l, ech::HandInOp op) {
  Value x = l.read(op.getOperand());
  SmallVector<Axis> axes(rt::buffer(x).getAxes());
  const StringAttr before = ech::tensor(op.getOperand()).getAxes().front().name;
  for (Axis &axis : axes)
    if (axis.name == before)
      axis.name = ech::tensor(op.getResult()).getAxes().front().name;
  l.bind(op.getResult(),
         l.view(x, 0, Buffer::get(l.b.getContext(), axes, rt::buffer(x).getElement(), rt::buffer(x).getStrides()),
                op.getLoc()));
  return success();
}

/// A rename is a view; a split too; a merge where the strides allow it, else of a copy.
LogicalResult lowerRelabel(Lowering &l, ech::RelabelOp op) {
  Value x = l.read(op.getOperand());
  Tensor type = l.local(op.getResult());
  MLIRContext *context = l.b.getContext();
  auto names = [](Attribute list) { return ech::strings(cast<ArrayAttr>(list)); };
  auto strideOf = [&](Buffer from, const Axis &axis) -> std::optional<int64_t> {
    for (auto [a, b] : llvm::zip(op.getFrom(), op.getTo())) {
      auto source = names(a), target = names(b);
      auto at = llvm::find(target, axis.name.getValue());
      if (at == target.end())
        continue;
      // all source axes as one
      int64_t stride = 0, size = 1;
      for (StringRef name : llvm::reverse(source)) {
        int64_t n = from.sizeOf(name), s = from.strideOf(name);
        if (n == 1)
          continue;
        if (size == 1)
          stride = s;
        else if (s != stride * size)
          return std::nullopt;
        size *= n;
      }
      for (auto after = at + 1; after != target.end(); ++after)
        stride *= type.sizeOf(*after);
      return stride;
    }
    return from.strideOf(axis.name);
  };
  for (int attempt = 0; attempt < 2; ++attempt) {
    SmallVector<int64_t> strides;
    for (const Axis &axis : type.getAxes()) {
      auto stride = strideOf(rt::buffer(x), axis);
      if (!stride)
        break;
      strides.push_back(*stride);
    }
    if (strides.size() == type.getAxes().size()) {
      l.bind(op.getResult(),
             l.view(x, 0, Buffer::get(context, type.getAxes(), type.getElement(), strides), op.getLoc()));
      return success();
    }
    // merged axes one after the other, in the order of the result
    SmallVector<Axis> order;
    for (const Axis &axis : type.getAxes()) {
      bool found = false;
      for (auto [a, b] : llvm::zip(op.getFrom(), op.getTo()))
        if (llvm::is_contained(names(b), axis.name.getValue())) {
          for (StringRef name : names(a))
            if (llvm::none_of(order, [&](const Axis &o) { return o.name == name; }))
              order.push_back({StringAttr::get(context, name), rt::buffer(x).sizeOf(name)});
          found = true;
        }
      if (!found)
        order.push_back(axis);
    }
    x = l.denseAs(x, order, op.getLoc());
  }
  return l.refuse(op, "cannot be seen as a view");
}

LogicalResult lowerConcat(Lowering &l, ech::ConcatOp op) {
  Value out = l.result(op.getResult(), /*mustBeDense=*/false);
  int64_t at = 0;
  for (Value v : op.getOperands()) {
    Value x = l.read(v);
    int64_t size = rt::buffer(x).sizeOf(op.getAxis());
    l.copy(l.range(out, op.getAxis(), at, size, op.getLoc()), x, op.getLoc());
    at += size;
  }
  return success();
}
} // namespace

void echelon::lower::addViews(Lowering &l) {
  l.add<ech::PickOp>(lowerPick);
  l.add<ech::PlaceOp>(lowerPlace);
  l.add<ech::SliceOp>(lowerSlice);
  l.add<ech::PadOp>(lowerPad);
  l.add<ech::ExpandOp>(lowerExpand);
  l.add<ech::PerWorkerOp>(lowerPerWorker);
  l.add<ech::HandInOp>(lowerHandIn);
  l.add<ech::RelabelOp>(lowerRelabel);
  l.add<ech::ConcatOp>(lowerConcat);
}
