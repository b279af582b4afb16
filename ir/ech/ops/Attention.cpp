// Attention in its fused form, and its derivative from the saved maximum and sum of the scores' exponentials.
#include "ir/ech/ops/Check.h"
#include "ir/ech/ops/Derive.h"

using namespace mlir;
using namespace echelon::ech;

namespace {
template <typename Op> LogicalResult checkAttention(Op op) {
  Tensor q = tensor(op.getQ()), k = tensor(op.getK()), v = tensor(op.getV());
  StringRef query = op.getQuery(), past = op.getPast(), key = op.getKey();
  auto lacks = [&](StringRef whose, Tensor type, StringRef axis) {
    return op.emitOpError() << whose << " " << describe(type) << " has no axis " << axis;
  };
  if (!q.has(key))
    return lacks("q", q, key);
  if (!query.empty() && !q.has(query))
    return lacks("q", q, query);
  for (auto [whose, type] : {std::pair("k", k), std::pair("v", v)}) {
    if (!type.has(past))
      return lacks(whose, type, past);
    if (!type.has(key))
      return lacks(whose, type, key);
    if (!query.empty() && type.has(query))
      return op.emitOpError() << whose << " " << describe(type) << " has the axis " << query
                              << " of the queries, which is walked against " << past;
    for (const Axis &a : type.getAxes())
      if (a.name != past && !q.has(a.name))
        return op.emitOpError() << whose << " has axis " << a.name.getValue() << ", which q " << describe(q)
                                << " lacks";
  }
  if (q.has(past))
    return op.emitOpError() << "q has the axis " << past << " that is looked back over";
  if (op.getCausal() && query.empty())
    return op.emitOpError() << "causal attention needs an axis of q to compare with " << past;
  SmallVector<Type> types{q, k, v};
  SmallVector<Axis> scores = unionOfAxes({q, k});
  for (Value extra : {op.getMask(), op.getBias()})
    if (extra) {
      types.push_back(extra.getType());
      for (const Axis &a : tensor(extra).getAxes())
        if (a.name == key || llvm::none_of(scores, [&](const Axis &b) { return a.name == b.name; }))
          return op.emitOpError() << "mask and bias have axes of the scores, and those have no " << a.name.getValue();
    }
  if (op.getMask() && failed(checkElement(op, tensor(op.getMask()), IntegerType::get(op.getContext(), 1), "the mask")))
    return failure();
  for (auto [whose, type] : {std::pair("k", k), std::pair("v", v), std::pair("the result", tensor(op.getResult()))})
    if (failed(checkElement(op, type, q.getElement(), whose)))
      return failure();
  if (failed(checkSizesAgree(op, types)) || failed(checkReal(op, q, "q")) ||
      failed(checkAxes(op, tensor(op.getResult()), q.getAxes(), "the result")))
    return failure();
  if (failed(checkAxes(op, tensor(op.getMaximum()), without(q, key).getAxes(), "the maximum")))
    return failure();
  return checkAxes(op, tensor(op.getSum()), without(q, key).getAxes(), "the sum");
}

template <typename Op> Division divide(Op op, StringRef axis) {
  return axis == op.getPast() || axis == op.getKey() ? Division::Never : Division::Freely;
}

/// Flops of one product between q and k: 2 a point of (q's axes, past); causal attention needs half of them.
template <typename Op> int64_t product(Op op) {
  int64_t n = 2 * tensor(op.getQ()).count() * tensor(op.getK()).sizeOf(op.getPast());
  return op.getCausal() ? n / 2 : n;
}
} // namespace

LogicalResult AttentionOp::verify() { return checkAttention(*this); }
LogicalResult AttentionGradOp::verify() {
  auto same = [&](Value v, Value like, StringRef whose) {
    return checkAxes(*this, tensor(v), tensor(like).getAxes(), whose);
  };
  if (failed(checkAttention(*this)) || failed(same(getCotangent(), getQ(), "the cotangent")) ||
      failed(same(getDq(), getQ(), "dq")) || failed(same(getDk(), getK(), "dk")) || failed(same(getDv(), getV(), "dv")))
    return failure();
  if (getDbias() && !getBias())
    return emitOpError() << "has a cotangent of the bias, and no bias";
  return getDbias() ? same(getDbias(), getBias(), "dbias") : success();
}

Division AttentionOp::division(StringRef axis) { return divide(*this, axis); }
Division AttentionGradOp::division(StringRef axis) { return divide(*this, axis); }
int64_t AttentionOp::flops() { return 2 * product(*this); }     // scores, and their product with v
int64_t AttentionGradOp::flops() { return 5 * product(*this); } // scores again, dv, dp, dq, dk

SmallVector<Value> AttentionOp::derive(Build &build, ArrayRef<Value> cotangents, ArrayRef<bool> wanted) {
  bool bias = getBias() && wanted.back();
  auto grad = AttentionGradOp::create(build.builder, build.loc, getQ().getType(), getK().getType(), getV().getType(),
                                      bias ? getBias().getType() : Type(), cotangents[0], getQ(), getK(), getV(),
                                      getResult(), getMaximum(), getSum(), getMask(), getBias(), getQueryAttr(),
                                      getPastAttr(), getKeyAttr(), getScaleAttr(), getCausalAttr());
  SmallVector<Value> result{grad.getDq(), grad.getDk(), grad.getDv()};
  if (getMask())
    result.push_back({});
  if (getBias())
    result.push_back(bias ? Value(grad.getDbias()) : Value());
  return result;
}
