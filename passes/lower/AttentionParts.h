// Attention: which axes are batch, group, head, query and past, and how far apart they lie.
#pragma once
#include "passes/lower/Lowering.h"

namespace echelon::lower {

using llvm::ArrayRef, llvm::SmallVector, llvm::StringRef;
using mlir::ArrayAttr, mlir::Attribute, mlir::OpBuilder, mlir::ValueRange;

/// One of the kernel's dimensions: axes of q that lie together, or none.
struct Part {
  SmallVector<Axis> axes;
  int64_t size = 1;
};

struct Heads {
  Part batch, group, head;
  StringRef query, past, key;
  int64_t seq, pastSize, keySize;

  /// Axes of q besides query and key: those that k lacks are `head` (queries that share keys), the others batch and,
  /// from the second on, group or head.
  template <typename Op>
  Heads(Lowering &l, Op op, Value q, Value k) : query(op.getQuery()), past(op.getPast()), key(op.getKey()) {
    Tensor tq = l.local(q), tk = l.local(k);
    seq = query.empty() ? 1 : tq.sizeOf(query);
    pastSize = tk.sizeOf(past);
    keySize = tq.sizeOf(key);
    bool grouped = llvm::any_of(tq.getAxes(), [&](const Axis &a) { return isOther(a) && !tk.has(a.name); });
    for (const Axis &a : tq.getAxes()) {
      if (!isOther(a))
        continue;
      Part &part = grouped && !tk.has(a.name) ? head : batch.axes.empty() ? batch : grouped ? group : head;
      part.axes.push_back(a);
      part.size *= a.size;
    }
  }
  bool isOther(const Axis &a) const { return a.name != query && a.name != key; }

  /// The stride of a part in a buffer; false where its axes do not lie together.
  static bool strideOf(Buffer x, const Part &part, int64_t &stride) {
    stride = 0;
    int64_t size = 1;
    for (const Axis &a : llvm::reverse(part.axes)) {
      if (a.size == 1)
        continue;
      int64_t s = x.strideOf(a.name);
      if (size == 1)
        stride = s;
      else if (s != stride * size)
        return false;
      size *= a.size;
    }
    return true;
  }

  /// {batch, group, head, row} where `row` walks over `along` and `key` is contiguous; false: a copy is needed.
  bool strides(Buffer x, StringRef along, SmallVector<int64_t> &out) const {
    out.assign(4, 0);
    if (!strideOf(x, batch, out[0]) || !strideOf(x, group, out[1]) || !strideOf(x, head, out[2]))
      return false;
    out[3] = along.empty() ? 0 : x.strideOf(along);
    return x.sizeOf(key) == 1 || x.strideOf(key) == 1;
  }
  /// The order that always has strides: of batch, group and head those that the value has an axis of, each as a whole
  /// (repeated along axes that the value lacks), then `last`, of those that it has.
  SmallVector<Axis> order(Buffer x, ArrayRef<StringRef> last) const {
    SmallVector<Axis> axes;
    for (const Part *part : {&batch, &group, &head})
      if (llvm::any_of(part->axes, [&](const Axis &a) { return x.has(a.name); }))
        llvm::append_range(axes, part->axes);
    for (StringRef name : last)
      if (int at = x.position(name); at >= 0)
        axes.push_back(x.getAxes()[at]);
    return axes;
  }
  Value withStrides(Lowering &l, Value x, StringRef along, SmallVector<int64_t> &out, Location loc) const {
    if (strides(rt::buffer(x), along, out))
      return x;
    x = l.denseAs(x, order(rt::buffer(x), {along, key}), loc);
    strides(rt::buffer(x), along, out);
    return x;
  }
  /// A result; where the value's own order has no strides, a buffer in the kernel's order of which it is a view, or,
  /// where that has more axes, the sum (`addUp`).
  Value result(Lowering &l, Value v, StringRef along, SmallVector<int64_t> &out) {
    Buffer natural = l.bufferType(v);
    if (strides(natural, along, out))
      return l.result(v);
    SmallVector<Axis> axes = order(natural, {along, key});
    strides(Buffer::dense(axes, natural.getElement()), along, out);
    if (static_cast<int64_t>(axes.size()) == natural.rank())
      return l.resultAs(v, axes);
    sums.push_back({l.alloc(axes, natural.getElement(), v.getLoc()), v});
    return sums.back().first;
  }
  /// Behind the call: results that were computed for each position of axes that they lack.
  void addUp(Lowering &l, Location loc) const {
    for (auto [parts, v] : sums)
      l.loop(loc, l.result(v), parts, rt::buffer(parts).getAxes(), "sum",
             [](OpBuilder &, ValueRange element) { return element[0]; });
  }
  /// (batch, group, head, seq), dense.
  SmallVector<Axis> statistics(Tensor local) const {
    return order(Buffer::dense(local.getAxes(), local.getElement()), query);
  }

  /// {batch, group, head, seq, past} of a mask or bias; false: a copy is needed.
  bool scoreStrides(Buffer x, SmallVector<int64_t> &out) const {
    out.assign(5, 0);
    out[3] = query.empty() ? 0 : x.strideOf(query);
    out[4] = x.strideOf(past);
    return strideOf(x, batch, out[0]) && strideOf(x, group, out[1]) && strideOf(x, head, out[2]);
  }
  Value denseScores(Lowering &l, Value x, SmallVector<int64_t> &out, Location loc) const {
    x = l.denseAs(x, order(rt::buffer(x), {query, past}), loc);
    scoreStrides(rt::buffer(x), out);
    return x;
  }
  Value scores(Lowering &l, Value v, SmallVector<int64_t> &out, Location loc) const {
    out.assign(5, 0);
    if (!v)
      return {};
    Value x = l.read(v);
    return scoreStrides(rt::buffer(x), out) ? x : denseScores(l, x, out, loc);
  }
  /// The cotangent of the bias, which the kernel walks with the bias's strides.
  Value biasCotangent(Lowering &l, Value v, Value &bias, SmallVector<int64_t> &out, Location loc) {
    if (!v)
      return {};
    if (rt::buffer(bias) == l.bufferType(v))
      return l.result(v);
    bias = denseScores(l, bias, out, loc);
    sums.push_back({l.alloc(rt::buffer(bias), v.getLoc()), v});
    return sums.back().first;
  }

  /// batch, group, head, seq, past, key and value.
  ArrayAttr sizes(Lowering &l, Value q, Value k, Value v, const Lowering::Segment &part) const {
    auto axis = [&](Value of, StringRef name) -> Attribute {
      Tensor type = l.local(of);
      return l.size(name.empty() ? ArrayRef<Axis>() : ArrayRef<Axis>(type.getAxes()[type.position(name)]));
    };
    auto queries = query.empty() ? axis(q, query) : l.size(Axis{l.b.getStringAttr(query), part.size});
    SmallVector<Attribute> all{l.size(batch.axes), l.size(group.axes), l.size(head.axes), queries,
                               axis(k, past),      axis(q, key),       axis(v, key)};
    return l.b.getArrayAttr(all);
  }
  /// The parts of this rank's queries that a kernel takes at once: where it asks how far each is behind the keys,
  /// queries in a row.
  SmallVector<Lowering::Segment> parts(Lowering &l, Value q, bool isCausal) const {
    if (!query.empty() && isCausal)
      return l.segmentsOf(ech::tensor(q), query);
    return {Lowering::Segment{0, seq, {}, ""}};
  }
  /// What a value has of one part of the queries; all of what has no queries.
  Value partOf(Lowering &l, Value x, const Lowering::Segment &part, Location loc) const {
    return part.size == seq || !x || !rt::buffer(x).has(query) ? x : l.range(x, query, part.at, part.size, loc);
  }
  /// How far a part of this rank's queries begins behind its keys; null: nowhere.
  Value between(Lowering &l, Value q, Value k, const Lowering::Segment &part) const {
    if (query.empty())
      return {};
    const bool isInRow = !l.mesh || !ech::tensor(q).getState() || dist::isInBlocks(ech::tensor(q), query, l.mesh);
    return isInRow ? l.offsetBetween(ech::tensor(q), query, ech::tensor(k), past) : l.beginOf(part);
  }

  SmallVector<std::pair<Value, Value>> sums; // (buffer, the value that it is to be added up to)
};

inline mlir::DenseI64ArrayAttr joined(Lowering &l, std::initializer_list<llvm::ArrayRef<int64_t>> lists) {
  SmallVector<int64_t> all;
  for (ArrayRef<int64_t> list : lists)
    llvm::append_range(all, list);
  return l.list(all);
}

/// What both directions read, as the kernels take it.
struct AttentionOperands {
  SmallVector<int64_t> sq, sk, sv, sm, sb;
  Value q, k, v, mask, bias;

  template <typename Op> AttentionOperands(Lowering &l, Op op, const Heads &h) {
    q = h.withStrides(l, l.read(op.getQ()), h.query, sq, op.getLoc());
    k = h.withStrides(l, l.read(op.getK()), h.past, sk, op.getLoc());
    v = h.withStrides(l, l.read(op.getV()), h.past, sv, op.getLoc());
  }
  template <typename Op> void readScores(Lowering &l, Op op, const Heads &h) {
    mask = h.scores(l, op.getMask(), sm, op.getLoc());
    bias = h.scores(l, op.getBias(), sb, op.getLoc());
  }
};

/// What the derivative reads and makes besides.
struct AttentionCotangents : AttentionOperands {
  SmallVector<int64_t> so, gq, gk, gv, go;
  Value out, dout, maximum, sum, dq, dk, dv, dbias;

  AttentionCotangents(Lowering &l, ech::AttentionGradOp op, Heads &h) : AttentionOperands(l, op, h) {
    Location loc = op.getLoc();
    out = h.withStrides(l, l.read(op.getResult()), h.query, so, loc);
    dout = h.withStrides(l, l.read(op.getCotangent()), h.query, go, loc);
    const SmallVector<Axis> rows = h.statistics(l.local(op.getMaximum()));
    maximum = l.denseAs(l.read(op.getMaximum()), rows, loc);
    sum = l.denseAs(l.read(op.getSum()), rows, loc);
    readScores(l, op, h);
    dq = h.result(l, op.getDq(), h.query, gq);
    dk = h.result(l, op.getDk(), h.past, gk);
    dv = h.result(l, op.getDv(), h.past, gv);
    dbias = h.biasCotangent(l, op.getDbias(), bias, sb, loc);
  }
};

/// Of attention whose keys and values go round a mesh axis (RingAttention.cpp).
mlir::LogicalResult lowerRing(Lowering &l, ech::AttentionOp op);
mlir::LogicalResult lowerRing(Lowering &l, ech::AttentionGradOp op);

} // namespace echelon::lower
