// Attention on one rank, or of queries that see all keys here.
#include "passes/lower/AttentionParts.h"

using namespace mlir;
using namespace echelon;
using namespace echelon::lower;

namespace {
LogicalResult lowerAttention(Lowering &l, ech::AttentionOp op) {
  if (op->hasAttr(dist::kRing))
    return lowerRing(l, op);
  Location loc = op.getLoc();
  Heads h(l, op, op.getQ(), op.getK());
  AttentionOperands x(l, op, h);
  SmallVector<int64_t> so;
  Value out = h.result(l, op.getResult(), h.query, so);
  const SmallVector<Axis> rows = h.statistics(l.local(op.getMaximum()));
  Value maximum = l.resultAs(op.getMaximum(), rows), sum = l.resultAs(op.getSum(), rows);
  x.readScores(l, op, h);
  for (const Lowering::Segment &part : h.parts(l, op.getQ(), op.getCausal())) {
    auto of = [&](Value all) { return h.partOf(l, all, part, loc); };
    auto dense = [&](Value part) { return rt::buffer(part).isDense() ? part : l.alloc(rt::buffer(part), loc); };
    Value largest = dense(of(maximum)), total = dense(of(sum));
    rt::AttentionOp::create(l.b, loc, of(out), largest, total, of(x.q), x.k, x.v, of(x.mask), of(x.bias),
                            h.between(l, op.getQ(), op.getK(), part), h.sizes(l, op.getQ(), op.getK(), op.getV(), part),
                            op.getScaleAttr(), op.getCausalAttr(), l.list(x.sm), l.list(x.sb),
                            joined(l, {x.sq, x.sk, x.sv, so}));
    l.copy(of(maximum), largest, loc);
    l.copy(of(sum), total, loc);
  }
  return success();
}

LogicalResult lowerAttentionGrad(Lowering &l, ech::AttentionGradOp op) {
  if (op->hasAttr(dist::kRing))
    return lowerRing(l, op);
  Location loc = op.getLoc();
  Heads h(l, op, op.getQ(), op.getK());
  AttentionCotangents x(l, op, h);
  for (const Lowering::Segment &part : h.parts(l, op.getQ(), op.getCausal())) {
    auto of = [&](Value all) { return h.partOf(l, all, part, loc); };
    auto rowsOf = [&](Value all) { return l.denseAs(of(all), rt::buffer(of(all)).getAxes(), loc); };
    // cotangents of what has no queries are sums over the parts
    auto sumOf = [&](Value sum) { return part.at == 0 || !sum ? sum : l.alloc(rt::buffer(sum), loc); };
    const bool isBiasOfQueries = x.dbias && rt::buffer(x.dbias).has(h.query);
    Value partOfDk = sumOf(x.dk), partOfDv = sumOf(x.dv), partOfDbias = isBiasOfQueries ? of(x.dbias) : sumOf(x.dbias);
    rt::AttentionGradOp::create(
        l.b, loc, of(x.dq), partOfDk, partOfDv, partOfDbias, of(x.dout), of(x.out), rowsOf(x.maximum), rowsOf(x.sum),
        of(x.q), x.k, x.v, of(x.mask), of(x.bias), h.between(l, op.getQ(), op.getK(), part),
        h.sizes(l, op.getQ(), op.getK(), op.getV(), part), op.getScaleAttr(), op.getCausalAttr(), l.list(x.sm),
        l.list(x.sb), joined(l, {x.sq, x.sk, x.sv, x.so}), joined(l, {x.gq, x.gk, x.gv, x.go}));
    for (auto [sum, summand] : {std::pair(x.dk, partOfDk), std::pair(x.dv, partOfDv), std::pair(x.dbias, partOfDbias)})
      if (part.at != 0 && sum && !(sum == x.dbias && isBiasOfQueries))
        l.copy(sum, summand, loc, /*adds=*/true);
  }
  h.addUp(l, loc);
  return success();
}
} // namespace

void echelon::lower::addAttention(Lowering &l) {
  l.add<ech::AttentionOp>(lowerAttention);
  l.add<ech::AttentionGradOp>(lowerAttentionGrad);
}
