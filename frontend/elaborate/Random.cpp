// dropout and survive. A random value is keyed by its site: the path of the call around it and the statement's name.
#include "frontend/elaborate/Elaborator.h"
#include "frontend/elaborate/KnownNumbers.h"

#include <cmath>

using namespace mlir;
using namespace echelon::frontend;
namespace ech = echelon::ech;
using ech::Function;

std::string Elaborator::randomSite(const std::string &base) {
  // `mlp.dropout`, `mlp.dropout_2`: numbered within a call, so that a branch not taken elsewhere changes nothing here.
  int n = ++randomSites[scope->prefix + base];
  return scope->prefix + base + (n == 1 ? "" : "_" + std::to_string(n));
}

Value Elaborator::keepBelow(const std::string &site, ech::Tensor type, Value chance, const Expr &given, bool isJudged,
                            bool drops) {
  Value draw = build.random(ech::Distribution::Uniform, site, 0, 1, type);
  draw.getDefiningOp()->setAttr(ech::kChance, builder.getUnitAttr());
  Chance &noted = chances[draw.getDefiningOp()] = {usersPlace(given.range), isJudged, drops, {}};
  for (const Scope *s = scope; s && s->caller && noted.calls.size() < 3; s = s->caller)
    if (!s->isLibrary)
      noted.calls.emplace_back(s->callRange, s->block->name.text + " is called here");
  return build.map(Function::Lt, {draw, chance});
}

void Elaborator::noteChances() {
  KnownNumbers known;
  step.walk([&](ech::RandomOp draw) {
    if (!draw->hasAttr(ech::kChance))
      return;
    draw->removeAttr(ech::kChance);
    const Chance &given = chances[draw];
    const Value keep = (*draw->user_begin())->getOperand(1);
    const Bounds bounds = known.bounds(keep);
    const auto numbers = bounds.low == bounds.high ? std::vector<double>{bounds.low} : known.atPositions(draw, keep);
    const std::vector<double> list = numbers.value_or(std::vector<double>());
    constexpr size_t mostListed = 4096; // they are in the program
    if (!list.empty() && list.size() <= mostListed)
      draw->setAttr(ech::kChance, builder.getDenseF64ArrayAttr(list));
    if (given.isJudged)
      return;
    auto fits = [&](double x) {
      const double limit = !shared.options.f64 && given.drops ? 0x1p-24 : 0; // 1 - x is 1 in fp32
      return x > limit && x <= 1 + 1e-12;                                    // rounded
    };
    const std::string what = std::string("the chance to ") + (given.drops ? "drop" : "survive"),
                      ends = given.drops ? "at least 0 and below 1" : "above 0 and at most 1";
    std::string wrong;
    if (auto place = llvm::find_if_not(list, fits); place != list.end()) {
      const std::string where = list.size() == 1 ? "" : positionsOf(draw, place - list.begin());
      wrong = what + " is " +
              (std::isnan(*place) ? "no number" : Number::real(given.drops ? 1 - *place : *place).text()) +
              (where.empty() ? "" : " where " + where) + "; it is " + ends;
    } else if (list.empty() && !(fits(bounds.low) && fits(bounds.high))) {
      wrong = what + (numbers ? " is worked out while training, and" : " is too much work to look at everywhere, and") +
              " nothing keeps it " + ends + "; write clamp(…, " + (given.drops ? "0, 0.9)" : "0.1, 1)");
    }
    if (wrong.empty())
      return;
    Diagnostic &said = error(Code::E0218, given.range, wrong);
    for (const auto &[range, note] : given.calls)
      said.note(range, note);
  });
}

Val Elaborator::dropout(const CallExpr &e, const Args &args) {
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
  std::string site = randomSite("dropout");
  if (!training || (p.kind == Val::Known && p.number.isZero()))
    return *x;
  Value chanceToKeep =
      p.kind == Val::Known ? build.constant(1 - p.number.value()) : build.sub(build.constant(1), chance->value);
  Value keep = keepBelow(site, x->type().withElement(build.real), chanceToKeep, *args["p"], p.kind == Val::Known, true);
  Value scaled = p.kind == Val::Known ? build.mul(x->value, build.constant(1 / (1 - p.number.value())))
                                      : build.div(x->value, chanceToKeep);
  return tensor(build.select(keep, scaled, build.constant(0)), false, e.range);
}

Val Elaborator::survive(const CallExpr &e, const Args &args) {
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
  std::string site = randomSite("survive");
  if (p.kind == Val::Known && p.number == Number::whole(1))
    return *x;
  if (!training)
    return tensor(build.mul(x->value, chance->value), false, e.range);
  auto type = build.type({{batchAxis->name.getValue(), x->type().sizeOf(batchAxis->name)}}, build.real);
  Value keep = keepBelow(site, type, chance->value, *args["p"], p.kind == Val::Known, false);
  return tensor(build.select(keep, x->value, build.constant(0)), false, e.range);
}
