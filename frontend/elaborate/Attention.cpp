// attention(q, k, v, …): the fused operation, or, where its form does not hold, what it stands for.
#include "frontend/elaborate/AxisRules.h"
#include "frontend/elaborate/Elaborator.h"
#include "frontend/elaborate/Reductions.h"
#include <cmath>

using namespace mlir;
using namespace echelon::frontend;
namespace ech = echelon::ech;
using ech::Function;

/// The axis of q that is walked against `past`: said, or past is like it, or it alone is q's own. Null where it is not
/// clear; nothing after an error.
static std::optional<const AxisInfo *> queryAxis(Elaborator &elab, const Args &args, ech::Tensor q, ech::Tensor k,
                                                 const AxisInfo &past) {
  if (args["query"]) {
    const AxisInfo *query = elab.read.axis(*args["query"], "`query`");
    if (!query || !requireAxes(elab, q, {query->name}, args["query"]->range, "q"))
      return std::nullopt;
    return query;
  }
  auto root = [](const AxisInfo *a) {
    while (a->like)
      a = a->like;
    return a;
  };
  SmallVector<const AxisInfo *> own;
  for (const ech::Axis &a : q.getAxes())
    if (!k.has(a.name))
      if (const AxisInfo *info = elab.declared(a.name))
        own.push_back(info);
  const AxisInfo *query = own.size() == 1 ? own[0] : nullptr;
  for (const AxisInfo *a : own)
    if (root(a) == root(&past))
      query = a;
  return query;
}

Val builtin::attention(Elaborator &elab, const CallExpr &call, const Args &args) {
  auto q = elab.read.realTensor(*args["q"], "attention"), k = elab.read.realTensor(*args["k"], "attention"),
       v = elab.read.realTensor(*args["v"], "attention");
  const AxisInfo *past = elab.read.axis(*args["over"], "`over`"), *key = elab.read.axis(*args["key"], "`key`");
  auto causal = elab.read.flag(args["causal"], false, "causal");
  auto scale = args["scale"] ? elab.read.known(args["scale"], "scale") : std::optional(Number());
  std::optional<Val> mask, bias;
  bool good = q && k && v && past && key && causal && scale;
  if (args["mask"]) {
    Val m = elab.eval(*args["mask"]);
    if (m.kind != Val::Truth || !m.truth) {
      mask = elab.read.anyTensor(m, args["mask"]->range);
      good &= mask.has_value();
      if (mask && !mask->type().getElement().isInteger(1)) {
        elab.error(Code::E0207, args["mask"]->range, "`mask` holds truth values: true where a query may look");
        good = false;
      }
    }
  }
  if (args["bias"]) {
    bias = elab.read.realTensor(*args["bias"], "bias");
    good &= bias.has_value();
  }
  if (!good)
    return Val::poison();
  if (!requireAxes(elab, q->type(), {key->name}, args["q"]->range, "q") ||
      !requireAxes(elab, k->type(), {key->name, past->name}, args["k"]->range, "k") ||
      !requireAxes(elab, v->type(), {past->name}, args["v"]->range, "v"))
    return Val::poison();
  if (q->type().has(past->name)) {
    const std::string own = elab.scopes.written(past->name), other = own == "past" ? "earlier" : "past";
    return elab.poison(Code::E0203, args["over"]->range,
                       (elab.scopes.isInLibrary() ? "the values have" : "q has") + std::string(" the axis ") + own +
                           " that attention looks back over; declare `axis " + other + " like " + own + "`, and " +
                           (elab.scopes.isInLibrary() ? "write " + other + " here"
                                                      : "rename that of k and v: k[" + own + " -> " + other + "]"));
  }
  if (!requireEqualSizes(elab, q->type(), k->type(), call.range, "attention") ||
      !requireEqualSizes(elab, q->type(), v->type(), call.range, "attention") ||
      !requireEqualSizes(elab, k->type(), v->type(), call.range, "attention"))
    return Val::poison();
  double factor = args["scale"] ? scale->value() : 1 / std::sqrt(static_cast<double>(q->type().sizeOf(key->name)));

  auto query = queryAxis(elab, args, q->type(), k->type(), *past);
  if (!query)
    return Val::poison();
  if (*query == key)
    return elab.poison(Code::E0203, args["query"]->range,
                       "axis " + elab.scopes.written(key->name) +
                           " is `key`, which is summed over; `query` is another");
  if (*causal && !*query)
    return elab.poison(Code::E0119, call.range,
                       "causal attention compares positions, and it is not clear which axis of q is walked against " +
                           elab.scopes.written(past->name) + "; say query = …");

  if (*causal && (!requireOrder(elab, {past->name}, args["over"]->range, "causal attention") ||
                  !requireOrder(elab, {(*query)->name}, args["query"] ? args["query"]->range : args["q"]->range,
                                "causal attention")))
    return Val::poison();

  // The fused form: q has all of k's and v's axes but `past`, and its `query` is its own; mask and bias lie over the
  // scores.
  auto within = [&](ech::Tensor t) {
    return llvm::all_of(t.getAxes(), [&](const ech::Axis &a) { return a.name == past->name || q->type().has(a.name); });
  };
  auto fits = [&](ech::Tensor t) { return within(t) && t.has(key->name) && !(*query && t.has((*query)->name)); };
  for (const auto *extra : {&mask, &bias})
    if (*extra) {
      if (!requireEqualSizes(elab, (*extra)->type(), q->type(), call.range, "attention") ||
          !requireEqualSizes(elab, (*extra)->type(), k->type(), call.range, "attention"))
        return Val::poison();
      if (!within((*extra)->type()) || (*extra)->type().has(key->name))
        return elab.poison(Code::E0205, call.range,
                           std::string(extra == &mask ? "the mask" : "the bias") + " has the axes " +
                               ech::describe((*extra)->type()) + ", and the scores have not all of them");
    }
  if (fits(k->type()) && fits(v->type()) && q->type().rank() >= 2) {
    auto op =
        elab.build.attention(q->value, k->value, v->value, mask ? mask->value : Value(), bias ? bias->value : Value(),
                             *query ? (*query)->name.getValue() : StringRef(), past->name, key->name, factor, *causal);
    return elab.tensor(op.getResult(), false, call.range);
  }
  Value scores =
      elab.build.mul(elab.build.dot(q->value, k->value, {key->name.getValue()}), elab.build.constant(factor));
  if (bias)
    scores = elab.build.add(scores, bias->value);
  Value allowed = mask ? mask->value : Value();
  if (*causal) {
    Value c = elab.build.map(Function::Ge, {elab.build.index((*query)->name, q->type().sizeOf((*query)->name)),
                                            elab.build.index(past->name, k->type().sizeOf(past->name))});
    allowed = allowed ? elab.build.map(Function::And, {allowed, c}) : c;
  }
  Value p = exponentialOf(elab.build, "softmax", scores, allowed, {past->name.getValue()});
  return elab.tensor(elab.build.dot(p, v->value, {past->name.getValue()}), false, call.range);
}
