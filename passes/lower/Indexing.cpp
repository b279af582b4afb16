// Gathers, their derivatives, and random values.
#include "ir/ech/Recompute.h"
#include "ir/run/Run.h"
#include "passes/lower/Lowering.h"
#include "llvm/ADT/StringSet.h"

using namespace mlir;
using namespace echelon;
using namespace echelon::lower;

namespace {
using Segment = Lowering::Segment;

/// Calls `visit` with each choice of one segment of each of these axes.
void forEachBox(Lowering &l, Tensor type, ArrayRef<StringRef> axes, function_ref<void(ArrayRef<Segment>)> visit,
                SmallVector<Segment> chosen = {}) {
  if (chosen.size() == axes.size())
    return visit(chosen);
  for (const Segment &segment : l.segmentsOf(type, axes[chosen.size()])) {
    chosen.push_back(segment);
    forEachBox(l, type, axes, visit, chosen);
    chosen.pop_back();
  }
}

/// What a buffer has of one segment of each of these axes.
Value boxOf(Lowering &l, Value x, ArrayRef<StringRef> axes, ArrayRef<Segment> box, Location loc) {
  for (auto [axis, segment] : llvm::zip(axes, box))
    if (rt::buffer(x).sizeOf(axis) != segment.size)
      x = l.range(x, axis, segment.at, segment.size, loc);
  return x;
}

/// The positions of gathered axes that a table has, which holds one segment of each.
struct Bounds {
  Bounds(Lowering &l, Tensor table, ArrayRef<StringRef> axes, ArrayRef<Segment> box) {
    for (auto [axis, segment] : llvm::zip(axes, box)) {
      sizes.push_back(table.sizeOf(axis));
      Value lo = l.beginOf(segment);
      bounded.push_back(static_cast<bool>(lo));
      if (lo) {
        lower.push_back(lo);
        upper.push_back(l.endOf(segment));
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
  bool isFirst = true;
  forEachBox(l, type, axes, [&](ArrayRef<Segment> box) {
    Value part = boxOf(l, table, axes, box, op.getLoc());
    Value into = isFirst ? out : l.alloc(rt::buffer(out), op.getLoc());
    const bool rows = indices.size() == 1 && rt::buffer(indices[0]).isDense() &&
                      isByRows(rt::buffer(part), axes, rt::buffer(indices[0]), rt::buffer(into));
    Bounds bounds(l, type, axes, box);
    rt::GatherOp::create(l.b, op.getLoc(), into, part, indices, bounds.lower, bounds.upper, op.getAxes(),
                         l.list(bounds.sizes), l.b.getDenseBoolArrayAttr(bounds.bounded), l.flag(rows),
                         l.b.getI64IntegerAttr(pickedBytes(rt::buffer(into), indices, 2)));
    if (!isFirst) // what is in no part of the table is 0
      l.copy(out, into, op.getLoc(), /*adds=*/true);
    isFirst = false;
  });
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
  forEachBox(l, type, axes, [&](ArrayRef<Segment> box) {
    Value part = boxOf(l, table, axes, box, loc);
    const bool rows = indices.size() == 1 && rt::buffer(indices[0]).isDense() &&
                      isByRows(rt::buffer(part), axes, rt::buffer(indices[0]), rt::buffer(values));
    Bounds bounds(l, type, axes, box);
    rt::ScatterAddOp::create(l.b, loc, part, values, indices, bounds.lower, bounds.upper, op.getAxes(),
                             l.list(bounds.sizes), l.b.getDenseBoolArrayAttr(bounds.bounded), l.flag(rows),
                             l.b.getI64IntegerAttr(pickedBytes(rt::buffer(values), indices, 3)));
  });
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

/// How a draw's logical index follows from what this rank stores.
struct DrawRows {
  struct Row {
    int64_t size, stride;
    Value offset;
  };
  SmallVector<Row> rows;      // fastest first
  SmallVector<size_t> ofAxes; // of the tensor's axes in order: which row
  SmallVector<int64_t> sizes; // logical, slowest first

  /// The index runs over the enclosing repeats' positions, then the tensor's axes; a loop over time counts in the
  /// global batch. In evaluation it runs over the samples, then over what there is of one.
  DrawRows(Lowering &l, ech::RandomOp op);
  /// The draw of one segment of each axis, into `out`.
  void draw(Lowering &l, ech::RandomOp op, ArrayRef<Segment> box, Value out) const;
};

DrawRows::DrawRows(Lowering &l, ech::RandomOp op) {
  Tensor type = ech::tensor(op.getResult());
  OpBuilder &b = l.b;
  StringRef batchAxis = ech::batchAxisOf(l.module);
  auto globalBatch = l.module->getAttrOfType<IntegerAttr>(ech::kBatch);
  auto policy = run::only<run::SyncOp>(l.module);
  const int64_t workers = policy ? policy.getWorkers() : 1;
  auto logicalSize = [&](const Axis &a) {
    return a.name == batchAxis && globalBatch && !l.evaluates ? globalBatch.getInt() * workers : a.size;
  };
  int64_t stride = 1;
  for (const Axis &a : llvm::reverse(type.getAxes())) {
    bool samples = a.name == batchAxis;
    ofAxes.insert(ofAxes.begin(), rows.size());
    if (samples && l.evaluates) { // how many there are is known by the run: outside of all others, see below
      rows.push_back({0, 0, {}});
      rows.push_back({1, 0, l.number(rt::Number::BatchOffset, b.getIndexType(), op.getLoc())});
      continue;
    }
    rows.push_back({0, stride, {}});
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
}

void DrawRows::draw(Lowering &l, ech::RandomOp op, ArrayRef<Segment> box, Value out) const {
  SmallVector<Row> here = rows;
  for (auto [row, segment] : llvm::zip(ofAxes, box)) {
    here[row].size = segment.size;
    here[row].offset = l.beginOf(segment);
  }
  SmallVector<int64_t> counts, strides;
  SmallVector<bool> moved;
  SmallVector<Value> offsets;
  for (const Row &row : llvm::reverse(here)) {
    counts.push_back(row.size);
    strides.push_back(row.stride);
    moved.push_back(static_cast<bool>(row.offset));
    if (row.offset)
      offsets.push_back(row.offset);
  }
  rt::RandomOp::create(l.b, op.getLoc(), out, op.getSiteAttr(),
                       l.flag(op.getDistribution() == ech::Distribution::Normal), op.getAAttr(), op.getBAttr(), offsets,
                       l.list(counts), l.list(strides), l.b.getDenseBoolArrayAttr(moved));
}

LogicalResult lowerRandom(Lowering &l, ech::RandomOp op) {
  Tensor type = ech::tensor(op.getResult());
  OpBuilder &b = l.b;
  Value out = l.result(op.getResult());
  const DrawRows rows(l, op);
  const SmallVector<StringRef> axes = type.names();
  forEachBox(l, type, axes, [&](ArrayRef<Segment> box) {
    Value part = boxOf(l, out, axes, box, op.getLoc());
    if (rt::buffer(part).isDense())
      return rows.draw(l, op, box, part);
    Value drawn = l.alloc(rt::buffer(part), op.getLoc());
    rows.draw(l, op, box, drawn);
    l.copy(part, drawn, op.getLoc());
  });
  const bool normal = op.getDistribution() == ech::Distribution::Normal;
  const double a = op.getA().convertToDouble(), spread = op.getB().convertToDouble();
  if (!l.evaluates) {
    SmallVector<Attribute> list;
    if (auto known = l.module->getAttrOfType<ArrayAttr>(rt::kDraws))
      llvm::append_range(list, known);
    NamedAttrList draw;
    draw.set("site", op.getSiteAttr());
    draw.set("sizes", b.getDenseI64ArrayAttr(rows.sizes));
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
