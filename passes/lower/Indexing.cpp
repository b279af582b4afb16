// Gathers, their derivatives, and random values.
#include "ir/ech/Recompute.h"
#include "ir/run/Run.h"
#include "passes/lower/Lowering.h"
#include "llvm/ADT/StringSet.h"

using namespace mlir;
using namespace echelon;
using namespace echelon::lower;

namespace {
/// The positions of gathered axes that this rank holds.
struct Bounds {
  Bounds(Lowering &l, Tensor table, ArrayRef<StringRef> axes) {
    for (StringRef axis : axes) {
      sizes.push_back(table.sizeOf(axis));
      Value lo = l.offsetOf(table, axis);
      bounded.push_back(static_cast<bool>(lo));
      if (lo) {
        lower.push_back(lo);
        upper.push_back(l.endOf(table, axis));
      }
    }
  }
  SmallVector<Value> lower, upper;
  SmallVector<int64_t> sizes;
  SmallVector<bool> bounded;
};

/// One gathered axis that is the table's first, and rows without the index's axes: the fast case.
bool isByRows(Buffer table, ArrayRef<StringRef> axes, Buffer index, Buffer values) {
  if (axes.size() != 1 || table.getAxes().empty() || table.getAxes()[0].name != axes[0] || !table.isDense())
    return false;
  if (values.rank() != index.rank() + table.rank() - 1 || !values.isDense())
    return false;
  for (auto [i, a] : llvm::enumerate(values.getAxes())) {
    const Axis &expected =
        i < static_cast<size_t>(index.rank()) ? index.getAxes()[i] : table.getAxes()[i - index.rank() + 1];
    if (!(a == expected))
      return false;
  }
  return true;
}

/// Of a table, only the rows that are picked are touched: bytes of these, of what they become and of the indices.
int64_t pickedBytes(Buffer values, ArrayRef<Value> indices, int timesValues) {
  int64_t bytes = timesValues * values.bytes();
  for (Value index : indices)
    bytes += rt::buffer(index).bytes();
  return bytes;
}

LogicalResult lowerGather(Lowering &l, ech::GatherOp op) {
  auto axes = ech::strings(op.getAxes());
  Tensor type = ech::tensor(op.getTable());
  Value table = l.read(op.getTable()), out = l.result(op.getResult());
  SmallVector<Value> indices = llvm::map_to_vector(op.getIndices(), [&](Value v) { return l.read(v); });
  const bool rows = indices.size() == 1 && rt::buffer(indices[0]).isDense() &&
                    isByRows(rt::buffer(table), axes, rt::buffer(indices[0]), rt::buffer(out));
  Bounds bounds(l, type, axes);
  rt::GatherOp::create(l.b, op.getLoc(), out, table, indices, bounds.lower, bounds.upper, op.getAxes(),
                       l.list(bounds.sizes), l.b.getDenseBoolArrayAttr(bounds.bounded), l.flag(rows),
                       l.b.getI64IntegerAttr(pickedBytes(rt::buffer(out), indices, 2)));
  return success();
}

LogicalResult lowerScatterAdd(Lowering &l, ech::ScatterAddOp op) {
  auto axes = ech::strings(op.getAxes());
  Tensor type = ech::tensor(op.getResult());
  Location loc = op.getLoc();
  Destination destination = l.target(op.getResult());
  Value table = destination.buffer, values = l.dense(op.getValues());
  SmallVector<Value> indices = llvm::map_to_vector(op.getIndices(), [&](Value v) { return l.read(v); });
  if (!destination.adds)
    l.fill(table, 0, loc);
  const bool rows = indices.size() == 1 && rt::buffer(indices[0]).isDense() &&
                    isByRows(rt::buffer(table), axes, rt::buffer(indices[0]), rt::buffer(values));
  Bounds bounds(l, type, axes);
  rt::ScatterAddOp::create(l.b, loc, table, values, indices, bounds.lower, bounds.upper, op.getAxes(),
                           l.list(bounds.sizes), l.b.getDenseBoolArrayAttr(bounds.bounded), l.flag(rows),
                           l.b.getI64IntegerAttr(pickedBytes(rt::buffer(values), indices, 3)));
  return success();
}

/// The axes of loops over groups of iterations.
llvm::StringSet<> groupsAround(Operation *op) {
  llvm::StringSet<> axes;
  for (auto loop = op->getParentOfType<ech::RepeatOp>(); loop; loop = loop->getParentOfType<ech::RepeatOp>())
    if (loop->hasAttr(ech::kOverGroups))
      axes.insert(loop.getAxis());
  return axes;
}

/// The logical index runs over the enclosing repeats' positions, then the tensor's axes; a loop over time counts in the
/// global batch. In evaluation it runs over the samples, then over what there is of one.
LogicalResult lowerRandom(Lowering &l, ech::RandomOp op) {
  Tensor type = ech::tensor(op.getResult());
  OpBuilder &b = l.b;
  Value out = l.result(op.getResult());
  StringRef batchAxis = ech::batchAxisOf(l.module);
  auto globalBatch = l.module->getAttrOfType<IntegerAttr>(ech::kBatch);
  auto policy = run::only<run::SyncOp>(l.module);
  const int64_t workers = policy ? policy.getWorkers() : 1;
  auto logicalSize = [&](const Axis &a) {
    return a.name == batchAxis && globalBatch && !l.evaluates ? globalBatch.getInt() * workers : a.size;
  };
  struct Row {
    int64_t size, stride;
    Value offset;
  };
  SmallVector<Row> rows;
  SmallVector<int64_t> sizes;
  int64_t stride = 1;
  for (const Axis &a : llvm::reverse(type.getAxes())) {
    bool samples = a.name == batchAxis;
    if (samples && l.evaluates) { // how many there are is known by the run: outside of all others, see below
      rows.push_back({l.local(type).sizeOf(a.name), 0, l.offsetOf(type, a.name)});
      rows.push_back({1, 0, l.number(rt::Number::BatchOffset, b.getIndexType(), op.getLoc())});
      continue;
    }
    rows.push_back({l.local(type).sizeOf(a.name), stride, l.offsetOf(type, a.name)});
    if (samples && workers > 1) // the samples of a round before those of this worker
      rows.push_back({1, stride, l.number(rt::Number::BatchOffset, b.getIndexType(), op.getLoc())});
    if (samples)
      for (auto &[axis, count, time] : llvm::reverse(l.loopAxes))
        if (time)
          rows.push_back({1, stride * a.size, l.positionOf(axis)});
    sizes.insert(sizes.begin(), logicalSize(a));
    stride *= logicalSize(a);
  }
  const llvm::StringSet<> groups = groupsAround(op);
  for (auto &[axis, count, time] : llvm::reverse(l.loopAxes))
    if (!time) {
      rows.push_back({1, stride, l.positionOf(axis)});
      if (groups.contains(axis) && !sizes.empty()) // one axis with the loop within
        sizes.front() *= count;
      else
        sizes.insert(sizes.begin(), count);
      stride *= count;
    }
  for (Row &row : rows)
    if (row.stride == 0)
      row.stride = stride;
  if (rows.empty())
    rows.push_back({1, 1, {}});
  bool normal = op.getDistribution() == ech::Distribution::Normal;
  double a = op.getA().convertToDouble(), spread = op.getB().convertToDouble();
  SmallVector<int64_t> counts, strides;
  SmallVector<bool> moved;
  SmallVector<Value> offsets;
  for (const Row &row : llvm::reverse(rows)) {
    counts.push_back(row.size);
    strides.push_back(row.stride);
    moved.push_back(static_cast<bool>(row.offset));
    if (row.offset)
      offsets.push_back(row.offset);
  }
  rt::RandomOp::create(b, op.getLoc(), out, op.getSiteAttr(), l.flag(normal), b.getF64FloatAttr(a),
                       b.getF64FloatAttr(spread), offsets, l.list(counts), l.list(strides),
                       b.getDenseBoolArrayAttr(moved));
  if (!l.evaluates) {
    SmallVector<Attribute> list;
    if (auto known = l.module->getAttrOfType<ArrayAttr>(rt::kDraws))
      llvm::append_range(list, known);
    NamedAttrList draw;
    draw.set("site", op.getSiteAttr());
    draw.set("sizes", b.getDenseI64ArrayAttr(sizes));
    if (auto chance = op->getAttrOfType<DenseF64ArrayAttr>(ech::kChance)) {
      draw.set("kind", b.getStringAttr("Keep"));
      draw.set("chance", chance);
    } else {
      draw.set("kind", b.getStringAttr(normal ? "Normal" : "Uniform"));
    }
    draw.set("a", b.getF64FloatAttr(a));
    draw.set("b", b.getF64FloatAttr(spread));
    draw.set("double", b.getBoolAttr(type.getElement().isF64()));
    Attribute entry = draw.getDictionary(b.getContext());
    if (!llvm::is_contained(list, entry)) // the backward pass draws again
      list.push_back(entry);
    l.module->setAttr(rt::kDraws, b.getArrayAttr(list));
  }
  return success();
}
} // namespace

void echelon::lower::addIndexing(Lowering &l) {
  l.add<ech::GatherOp>(lowerGather);
  l.add<ech::ScatterAddOp>(lowerScatterAdd);
  l.add<ech::RandomOp>(lowerRandom);
}
