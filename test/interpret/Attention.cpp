#include "test/interpret/Attention.h"
#include "test/interpret/Algebra.h"
#include <cmath>
#include <limits>

using namespace mlir;
using namespace echelon::ech;
using namespace echelon::interpret;

/// Scores, and from them the weights, of attention: over q's axes but key, and past.
template <typename Op>
static Array scores(Op op, const Array &q, const Array &k, const Array *mask, const Array *bias) {
  Array s;
  auto take = [&](const Array &x) {
    for (size_t i = 0; i < x.axes.size(); ++i)
      if (x.axes[i] != op.getKey() && !llvm::is_contained(s.axes, x.axes[i])) {
        s.axes.push_back(x.axes[i]);
        s.sizes.push_back(x.sizes[i]);
      }
  };
  take(q);
  take(k);
  int64_t n = 1;
  for (int64_t size : s.sizes)
    n *= size;
  s.values.assign(n, 0);
  Walk walk = walkOver({&s, &q, &k});
  walk.run([&] { s.values[walk.at(0)] += q.values[walk.at(1)] * k.values[walk.at(2)]; });
  SmallVector<const Array *> all{&s};
  if (bias)
    all.push_back(bias);
  if (mask)
    all.push_back(mask);
  Walk finish = walkOver(all);
  double scale = op.getScale().convertToDouble();
  finish.run([&] {
    double &v = s.values[finish.at(0)];
    v *= scale;
    if (bias)
      v += bias->values[finish.at(1)];
    bool off = mask && mask->values[finish.at(bias ? 2 : 1)] == 0;
    off |= op.getCausal() && finish.coordinate(op.getPast()) > finish.coordinate(op.getQuery());
    if (off)
      v = -std::numeric_limits<double>::infinity();
  });
  return s;
}

std::vector<Array> echelon::interpret::computeAttention(AttentionOp o, ArrayRef<Array> in, Machine &machine) {
  const Array *mask = o.getMask() ? &in[3] : nullptr, *bias = o.getBias() ? &in[o.getMask() ? 4 : 3] : nullptr;
  Array s = scores(o, in[0], in[1], mask, bias), y(machine.shape(o.getResult()));
  ArrayAttr past = ArrayAttr::get(o.getContext(), {o.getPastAttr()});
  Array top = maxOver(s, past);
  Array sum = sumOver(combine(s, {&s, &top}, [](double *v) { return std::exp(v[0] - v[1]); }), past);
  Walk walk = walkOver({&s, &top, &sum, &in[2], &y});
  walk.run([&] {
    double share = std::exp(s.values[walk.at(0)] - top.values[walk.at(1)]) / sum.values[walk.at(2)];
    y.values[walk.at(4)] += share * in[2].values[walk.at(3)];
  });
  std::vector<std::string> rows = Array(machine.shape(o->getResult(1))).axes;
  return std::vector<Array>{y, top.inOrder(rows), sum.inOrder(rows)};
}

std::vector<Array> echelon::interpret::computeAttention(AttentionGradOp o, ArrayRef<Array> in, Machine &machine) {
  const Array &dy = in[0], &q = in[1], &k = in[2], &v = in[3], &y = in[4], &top = in[5], &sum = in[6];
  const Array *mask = o.getMask() ? &in[7] : nullptr, *bias = o.getBias() ? &in[o.getMask() ? 8 : 7] : nullptr;
  Array s = scores(o, q, k, mask, bias);
  Array p = combine(s, {&s, &top, &sum}, [](double *v) { return std::exp(v[0] - v[1]) / v[2]; });
  ArrayAttr key = ArrayAttr::get(o.getContext(), {o.getKeyAttr()});
  Array dp = p, total = sumOver(combine(y, {&y, &dy}, [](double *x) { return x[0] * x[1]; }), key);
  dp.values.assign(dp.values.size(), 0);
  {
    Walk walk = walkOver({&dp, &dy, &v});
    walk.run([&] { dp.values[walk.at(0)] += dy.values[walk.at(1)] * v.values[walk.at(2)]; });
  }
  Array ds = combine(p, {&p, &dp, &total}, [](double *x) { return x[0] * (x[1] - x[2]); });
  std::vector<Array> out;
  for (Value result : o->getResults())
    out.push_back(Array(machine.shape(result)));
  double scale = o.getScale().convertToDouble();
  SmallVector<const Array *> all{&ds, &q, &k, &p, &dy, &out[0], &out[1], &out[2]};
  Walk each = walkOver(all);
  each.run([&] {
    double d = ds.values[each.at(0)] * scale;
    out[0].values[each.at(5)] += d * k.values[each.at(2)];
    out[1].values[each.at(6)] += d * q.values[each.at(1)];
    out[2].values[each.at(7)] += p.values[each.at(3)] * dy.values[each.at(4)];
  });
  if (out.size() > 3) {
    Walk add = walkOver({&ds, &out[3]});
    add.run([&] { out[3].values[add.at(1)] += ds.values[add.at(0)]; });
  }
  return out;
}
