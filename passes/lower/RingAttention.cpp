// Attention whose keys and values go round a mesh axis: where they are sent from and arrive, and which positions they
// have.
#include "passes/lower/AttentionParts.h"

using namespace mlir;
using namespace echelon;
using namespace echelon::lower;

namespace {
/// What both directions say of the ring.
struct Ring {
  int64_t mesh, ranks, come; // come: blocks of others for which there is room
  SmallVector<Value> begins;
  SmallVector<Attribute> queries;
  SmallVector<int64_t> keys;
  StringAttr why;

  template <typename Op> Ring(Lowering &l, Op op, const Heads &h) {
    mesh = l.mesh.index(op->template getAttrOfType<StringAttr>(dist::kRing));
    ranks = l.mesh.sizeOf(mesh);
    come = std::min<int64_t>(ranks - 1, 2);
    why = op->template getAttrOfType<StringAttr>(ech::kWhy);
    for (const Lowering::Segment &part : h.parts(l, op.getQ(), op.getCausal())) {
      queries.push_back(l.size(Axis{l.b.getStringAttr(h.query), part.size}));
      if (op.getCausal())
        begins.push_back(l.beginOf(part));
    }
    if (!op.getCausal() && !op.getMask() && !op.getBias()) { // positions do not matter
      keys = {h.pastSize, 0, 0};
      return;
    }
    const dist::OwnerMap map = l.mesh.mapOf(mesh, h.past);
    const int64_t size = h.pastSize / map.chunks;
    for (int64_t k = 0; k < map.chunks; ++k) {
      const dist::OwnerMap::Chunk chunk = map.chunk(k, ranks);
      llvm::append_range(keys, ArrayRef{size, chunk.first * size, chunk.step * size});
    }
  }
};

/// A buffer of several blocks like one.
Value blocks(Lowering &l, int64_t count, Value like, StringRef name, Location loc) {
  SmallVector<Axis> axes(rt::buffer(like).getAxes());
  axes.insert(axes.begin(), l.axisBeside("block", count, axes));
  return l.alloc(axes, rt::buffer(like).getElement(), NameLoc::get(l.b.getStringAttr(name), loc));
}

/// x as it can be sent: dense, with strides.
Value denseKeys(Lowering &l, const Heads &h, Value x, SmallVector<int64_t> &strides, Location loc) {
  if (rt::buffer(x).isDense())
    return x;
  x = l.denseAs(x, h.order(rt::buffer(x), {h.past, h.key}), loc);
  h.strides(rt::buffer(x), h.past, strides);
  return x;
}
/// Where a result can be received: its place, or a dense buffer that is copied there.
Value denseResult(Lowering &l, const Heads &h, Value place, SmallVector<int64_t> &strides, Location loc) {
  if (rt::buffer(place).isDense())
    return place;
  Value made = l.alloc(h.order(rt::buffer(place), {h.past, h.key}), rt::buffer(place).getElement(), loc);
  h.strides(rt::buffer(made), h.past, strides);
  return made;
}
} // namespace

LogicalResult echelon::lower::lowerRing(Lowering &l, ech::AttentionOp op) {
  Location loc = op.getLoc();
  Heads h(l, op, op.getQ(), op.getK());
  AttentionOperands x(l, op, h);
  Value k = denseKeys(l, h, x.k, x.sk, loc), v = denseKeys(l, h, x.v, x.sv, loc);
  SmallVector<int64_t> so;
  Value out = h.result(l, op.getResult(), h.query, so);
  const SmallVector<Axis> rows = h.statistics(l.local(op.getMaximum()));
  Value maximum = l.resultAs(op.getMaximum(), rows), sum = l.resultAs(op.getSum(), rows);
  x.readScores(l, op, h);
  auto dense = [&](Value all) {
    return rt::buffer(all).isDense() ? all : l.alloc(rows, rt::buffer(all).getElement(), loc);
  };
  Value largest = dense(maximum), total = dense(sum);
  const Ring ring(l, op, h);
  rt::RingAttentionOp::create(l.b, loc, out, largest, total, blocks(l, ring.come, k, "keys_that_come", loc),
                              blocks(l, ring.come, v, "values_that_come", loc), x.q, k, v, x.mask, x.bias, ring.begins,
                              l.b.getArrayAttr(ring.queries), l.list(ring.keys), l.list(ring.mesh),
                              l.b.getI64IntegerAttr(ring.ranks), l.b.getStringAttr(l.mesh.nameOf(ring.mesh)), ring.why,
                              h.sizes(l, op.getQ(), op.getK(), op.getV(), {0, h.seq, {}, ""}), op.getScaleAttr(),
                              op.getCausalAttr(), l.list(x.sm), l.list(x.sb), joined(l, {x.sq, x.sk, x.sv, so}));
  l.copy(maximum, largest, loc);
  l.copy(sum, total, loc);
  return success();
}

LogicalResult echelon::lower::lowerRing(Lowering &l, ech::AttentionGradOp op) {
  Location loc = op.getLoc();
  Heads h(l, op, op.getQ(), op.getK());
  AttentionCotangents x(l, op, h);
  Value k = denseKeys(l, h, x.k, x.sk, loc), v = denseKeys(l, h, x.v, x.sv, loc);
  Value dk = denseResult(l, h, x.dk, x.gk, loc), dv = denseResult(l, h, x.dv, x.gv, loc);
  const Ring ring(l, op, h);
  rt::RingAttentionGradOp::create(
      l.b, loc, x.dq, dk, dv, x.dbias, blocks(l, ring.come, k, "keys_that_come", loc),
      blocks(l, ring.come, v, "values_that_come", loc), blocks(l, 2, dk, "shares_of_d_key", loc),
      blocks(l, 2, dv, "shares_of_d_value", loc), x.dout, x.out, x.maximum, x.sum, x.q, k, v, x.mask, x.bias,
      ring.begins, l.b.getArrayAttr(ring.queries), l.list(ring.keys), l.list(ring.mesh),
      l.b.getI64IntegerAttr(ring.ranks), l.b.getStringAttr(l.mesh.nameOf(ring.mesh)), ring.why,
      h.sizes(l, op.getQ(), op.getK(), op.getV(), {0, h.seq, {}, ""}), op.getScaleAttr(), op.getCausalAttr(),
      l.list(x.sm), l.list(x.sb), joined(l, {x.sq, x.sk, x.sv, x.so}), joined(l, {x.gq, x.gk, x.gv, x.go}));
  l.copy(x.dk, dk, loc);
  l.copy(x.dv, dv, loc);
  h.addUp(l, loc);
  return success();
}
