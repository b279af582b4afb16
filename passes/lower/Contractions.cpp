// dot: one matrix product, or a product for every point of further axes.
//
// 1. Every axis is one of batch (in a, b, c), m (a, c), n (b, c), k (a, b).
// 2. Axes of one kind that both their buffers walk in one stride become one dimension.
// 3. The largest dimension of each of m, n, k goes into the product; all others are dimensions of a batch, in which an
//    operand that lacks them has stride 0 (a stride of 0 in c sums).
// 4. An operand that has no contiguous dimension is copied first; a result that has none is computed apart and copied.
// 5. Of two bytes, a bias along the rows of c is the kernel's to add. Elsewhere, and where several products make a sum,
//    the product is computed apart in f32.
#include "passes/lower/Lowering.h"

using namespace mlir;
using namespace echelon;
using namespace echelon::lower;

namespace {
struct Dim {
  int64_t size, c, a, b;  // strides
  SmallVector<Axis> axes; // that it is made of, the slowest first
};

struct Plan {
  SmallVector<Dim> batch;
  Dim m{1, 0, 0, 0, {}}, n{1, 0, 0, 0, {}}, k{1, 0, 0, 0, {}};
};

/// Merges neighbours that every operand walks in one stride; slowest (in `by`) first.
SmallVector<Dim> merged(SmallVector<Dim> dims, int64_t Dim::*by) {
  llvm::stable_sort(dims, [&](const Dim &x, const Dim &y) { return x.*by > y.*by; });
  SmallVector<Dim> result;
  for (const Dim &d : dims) {
    if (!result.empty()) {
      Dim &last = result.back();
      if (last.c == d.c * d.size && last.a == d.a * d.size && last.b == d.b * d.size) {
        last = {last.size * d.size, d.c, d.a, d.b, last.axes};
        llvm::append_range(last.axes, d.axes);
        continue;
      }
    }
    result.push_back(d);
  }
  return result;
}

/// Takes the dimension for the product: the largest among those with stride 1 in some operand, else the largest.
Dim take(SmallVector<Dim> dims, SmallVector<Dim> &batch, llvm::function_ref<bool(const Dim &)> preferred) {
  if (dims.empty())
    return {1, 0, 0, 0, {}};
  auto *best = std::max_element(dims.begin(), dims.end(), [&](const Dim &x, const Dim &y) {
    return std::pair(preferred(x), x.size) < std::pair(preferred(y), y.size);
  });
  Dim taken = *best;
  dims.erase(best);
  llvm::append_range(batch, dims);
  return taken;
}

Plan planFor(Buffer a, Buffer b, Buffer c) {
  SmallVector<Dim> m, n, k, batch;
  llvm::SmallDenseSet<StringRef> seen;
  for (Buffer x : {c, a, b})
    for (const Axis &axis : x.getAxes()) {
      StringRef name = axis.name.getValue();
      if (axis.size == 1 || !seen.insert(name).second)
        continue;
      Dim d{axis.size, c.strideOf(name), a.strideOf(name), b.strideOf(name), {axis}};
      auto &kind = !c.has(name) ? k : !b.has(name) ? m : !a.has(name) ? n : batch;
      kind.push_back(d);
    }
  Plan plan;
  plan.batch = merged(batch, &Dim::c);
  plan.n = take(merged(n, &Dim::c), plan.batch, [](const Dim &d) { return d.c == 1; });
  plan.m = take(merged(m, &Dim::c), plan.batch, [](const Dim &d) { return d.a != 0; });
  plan.k = take(merged(k, &Dim::a), plan.batch, [](const Dim &d) { return d.a == 1 || d.b == 1; });
  return plan;
}

/// One of the two strides of a stored matrix is 1, the other walks over its rows.
bool isMatrix(int64_t rows, int64_t rowStride, int64_t columns, int64_t columnStride, bool &transposed, int64_t &ld) {
  if (columns == 1 || columnStride == 1) {
    transposed = false;
    ld = rows == 1 ? columns : rowStride;
    if (columns == 1 && rowStride == 1 && rows > 1) { // a column of neighbours: the transposed row
      transposed = true;
      ld = rows;
      return true;
    }
    return ld >= columns && ld > 0;
  }
  if (rows == 1 || rowStride == 1) {
    transposed = true;
    ld = columns == 1 ? rows : columnStride;
    return ld >= rows && ld > 0;
  }
  return false;
}

/// A leading dimension: the stride of a buffer's rows, or the length of a matrix of one row.
rt::SizeAttr leading(Lowering &l, Value x, int64_t ld, const Plan &plan) {
  for (const Dim *d : {&plan.k, &plan.n, &plan.m})
    if (d->size == ld && ld > 1 &&
        llvm::all_of(d->axes, [&](const Axis &axis) { return rt::buffer(x).has(axis.name); }))
      return l.size(d->axes);
  if (auto axes = rt::axesWithin(x, ld))
    return l.size(*axes);
  return l.size(ld == 1 ? ArrayRef<Axis>() : ArrayRef<Axis>(Axis{l.b.getStringAttr(""), ld}));
}

/// Whether a product of this plan adds the bias to its rows, and has each sum whole before it is rounded.
bool isOneKernel(const Plan &plan, Value bias) {
  if (llvm::any_of(plan.batch, [](const Dim &d) { return d.c == 0; }))
    return false;
  return !bias || (plan.batch.empty() && ArrayRef<Axis>(plan.n.axes) == rt::buffer(bias).getAxes());
}

/// to = product + bias, rounded.
void addBias(Lowering &l, Value to, Value product, Value bias, Location loc) {
  Buffer type = rt::buffer(to);
  l.loop(loc, to, {product, bias}, type.getAxes(), "store", [&](OpBuilder &inner, ValueRange x) -> Value {
    auto compute = [&](StringRef function, Type element, ValueRange of) -> Value {
      return rt::ComputeOp::create(inner, loc, element, function, of);
    };
    const Type f32 = inner.getF32Type();
    Value wide = compute("cast", f32, x[1]);
    return compute("cast", type.getElement(), compute("add", f32, {x[0], wide}));
  });
}

LogicalResult lowerProduct(Lowering &l, Operation *op, Destination destination, Value lhs, Value rhs, Value bias) {
  Location loc = op->getLoc();
  const bool rounds = isa<dist::LinearOp>(op);
  Value c = destination.buffer, a = l.read(lhs), b = l.read(rhs);
  if (bias)
    bias = l.dense(bias);
  Plan plan = planFor(rt::buffer(a), rt::buffer(b), rt::buffer(c));
  if (plan.n.c != 1 && plan.n.size != 1 && plan.m.c == 1) { // the result lies transposed: c' = b' a'
    std::swap(a, b);
    plan = planFor(rt::buffer(a), rt::buffer(b), rt::buffer(c));
  }
  bool transA, transB, transC;
  int64_t lda, ldb, ldc;
  auto inOrder = [&](Value x, Value other, bool keysLast) { // shared axes, own axes, summed axes (or these before own)
    SmallVector<Axis> shared, own, keys;
    for (const Axis &axis : rt::buffer(c).getAxes())
      if (rt::buffer(x).has(axis.name))
        (rt::buffer(other).has(axis.name) ? shared : own).push_back(axis);
    for (const Axis &axis : rt::buffer(a).getAxes())
      if (!rt::buffer(c).has(axis.name))
        keys.push_back(axis);
    llvm::append_range(shared, keysLast ? own : keys);
    llvm::append_range(shared, keysLast ? keys : own);
    return l.denseAs(x, shared, loc);
  };
  for (int attempt = 0;; ++attempt) {
    bool goodA = isMatrix(plan.m.size, plan.m.a, plan.k.size, plan.k.a, transA, lda);
    bool goodB = isMatrix(plan.k.size, plan.k.b, plan.n.size, plan.n.b, transB, ldb);
    if (goodA && goodB)
      break;
    if (attempt == 2)
      return l.refuse(op, "has operands that are no matrices");
    if (!goodA || attempt == 1) // the second time both, so that they walk the summed axes in one order
      a = inOrder(a, b, true);
    if (!goodB || attempt == 1)
      b = inOrder(b, a, false);
    plan = planFor(rt::buffer(a), rt::buffer(b), rt::buffer(c));
  }
  bool adds = destination.adds;
  auto isResult = [&] {
    return isMatrix(plan.m.size, plan.m.c, plan.n.size, plan.n.c, transC, ldc) && (!transC || plan.n.size == 1);
  };
  const bool addsBias = bias && isResult() && isOneKernel(plan, bias);
  if (!isResult() || (rounds && !isOneKernel(plan, bias))) { // apart
    SmallVector<Axis> shared, rows, columns;
    for (const Axis &axis : rt::buffer(c).getAxes())
      (!rt::buffer(b).has(axis.name) ? rows : rt::buffer(a).has(axis.name) ? shared : columns).push_back(axis);
    llvm::append_range(shared, rows);
    llvm::append_range(shared, columns);
    c = l.alloc(shared, rounds ? l.b.getF32Type() : rt::buffer(c).getElement(), loc);
    adds = false;
    plan = planFor(rt::buffer(a), rt::buffer(b), rt::buffer(c));
    if (!isMatrix(plan.m.size, plan.m.a, plan.k.size, plan.k.a, transA, lda) ||
        !isMatrix(plan.k.size, plan.k.b, plan.n.size, plan.n.b, transB, ldb) || !isResult())
      return l.refuse(op, "has a result that is no matrix");
  }
  if (transC) // one column of neighbours
    ldc = 1;
  SmallVector<int64_t> batch;
  for (const Dim &d : plan.batch)
    batch.append({d.size, d.c, d.a, d.b});
  rt::GemmOp::create(l.b, loc, c, a, b, addsBias ? bias : Value(), l.size(plan.m.axes), l.size(plan.n.axes),
                     l.size(plan.k.axes), transA, transB, leading(l, a, lda, plan), leading(l, b, ldb, plan),
                     leading(l, c, ldc, plan), l.list(batch), adds, rt::BlasAttr());
  if (c != destination.buffer && bias && !addsBias)
    addBias(l, destination.buffer, c, bias, loc);
  else if (c != destination.buffer)
    l.copy(destination.buffer, c, loc, destination.adds);
  return success();
}

LogicalResult lowerDot(Lowering &l, ech::DotOp op) {
  return lowerProduct(l, op, l.target(op.getResult()), op.getLhs(), op.getRhs(), {});
}
LogicalResult lowerLinear(Lowering &l, dist::LinearOp op) {
  return lowerProduct(l, op, {l.result(op.getResult(), false)}, op.getLhs(), op.getRhs(), op.getBias());
}
} // namespace

void echelon::lower::addContractions(Lowering &l) {
  l.add<ech::DotOp>(lowerDot);
  l.add<dist::LinearOp>(lowerLinear);
}
