// dropout and survive. A random value is keyed by its site: the path of the call around it and the statement's name.
#include "frontend/elaborate/Lowering.h"

using namespace mlir;
using namespace echelon::frontend;
namespace ech = echelon::ech;
using ech::Function;

std::string Lowering::randomSite(const std::string &base, const CallExpr *) {
  // `mlp.dropout`, `mlp.dropout_2`: numbered within a call, so that a branch not taken elsewhere changes nothing here.
  int n = ++randomSites[scope->prefix + base];
  return scope->prefix + base + (n == 1 ? "" : "_" + std::to_string(n));
}

Val Lowering::dropout(const CallExpr &e, const Args &args) {
  auto x = realTensor(*args["x"], "dropout");
  Val p = eval(*args["p"]);
  if (!x || p.isPoison())
    return Val::poison();
  if (p.kind == Val::Known && (p.number.value() < 0 || p.number.value() >= 1))
    return poison(Code::E0218, args["p"]->range,
                  "the chance to drop is " + p.number.text() + "; it is at least 0 and below 1");
  auto chance = realTensor(p, args["p"]->range, "dropout");
  if (!chance)
    return Val::poison();
  if (chance->type().rank() != 0)
    return poison(Code::E0212, args["p"]->range,
                  "the chance to drop is one number, and this has the axes " + ech::describe(chance->type()));
  std::string site = randomSite("dropout", &e);
  if (!training || (p.kind == Val::Known && p.number.isZero()))
    return *x;
  Value draw = build.random(ech::Distribution::Uniform, site, 0, 1, x->type().withElement(build.real));
  Value keep = build.map(Function::Ge, {draw, chance->value});
  Value scaled = p.kind == Val::Known ? build.mul(x->value, build.constant(1 / (1 - p.number.value())))
                                      : build.div(x->value, build.sub(build.constant(1), chance->value));
  return tensor(build.select(keep, scaled, build.constant(0)), false, e.range);
}

Val Lowering::survive(const CallExpr &e, const Args &args) {
  auto x = realTensor(*args["x"], "survive");
  Val p = eval(*args["p"]);
  if (!x || p.isPoison())
    return Val::poison();
  if (p.kind == Val::Known && (p.number.value() <= 0 || p.number.value() > 1))
    return poison(Code::E0218, args["p"]->range,
                  "the chance to survive is " + p.number.text() + "; it is above 0 and at most 1");
  auto chance = realTensor(p, args["p"]->range, "survive");
  if (!chance)
    return Val::poison();
  if (chance->type().rank() != 0)
    return poison(Code::E0212, args["p"]->range,
                  "the chance to survive is one number, and this has the axes " + ech::describe(chance->type()));
  if (!batchAxis || !x->type().has(batchAxis->name))
    return poison(Code::E0206, args["x"]->range,
                  "survive keeps or drops a sample's branch, and this value has no batch axis; its axes are " +
                      ech::describe(x->type()));
  std::string site = randomSite("survive", &e);
  if (p.kind == Val::Known && p.number == Number::whole(1))
    return *x;
  if (!training)
    return tensor(build.mul(x->value, chance->value), false, e.range);
  auto type = build.type({{batchAxis->name.getValue(), x->type().sizeOf(batchAxis->name)}}, build.real);
  Value draw = build.random(ech::Distribution::Uniform, site, 0, 1, type);
  Value keep = build.map(Function::Lt, {draw, chance->value});
  return tensor(build.select(keep, x->value, build.constant(0)), false, e.range);
}
