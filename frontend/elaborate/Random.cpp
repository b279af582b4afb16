// dropout and survive. A random value is keyed by its site: the path of the call around it and the statement's name.
#include "frontend/elaborate/Elaborator.h"
#include "frontend/elaborate/KnownNumbers.h"
#include <cmath>

using namespace mlir;
using namespace echelon::frontend;
namespace ech = echelon::ech;
using ech::Function;

static Value keepBelow(Elaborator &elab, const std::string &site, ech::Tensor type, Value chance, const Expr &given,
                       bool isJudged, bool drops) {
  Value draw = elab.build.random(ech::Distribution::Uniform, site, 0, 1, type);
  draw.getDefiningOp()->setAttr(ech::kChance, elab.build.builder.getUnitAttr());
  elab.remembered.chances[draw.getDefiningOp()] = {elab.scopes.usersPlace(given.range), isJudged, drops,
                                                   elab.scopes.callsAround(3)};
  return elab.build.map(Function::Lt, {draw, chance});
}

void echelon::frontend::noteChances(Elaborator &elab, ech::StepOp step) {
  KnownNumbers known;
  step.walk([&](ech::RandomOp draw) {
    if (!draw->hasAttr(ech::kChance))
      return;
    draw->removeAttr(ech::kChance);
    const Remembered::Chance &given = elab.remembered.chances[draw];
    const Value keep = (*draw->user_begin())->getOperand(1);
    const Bounds bounds = known.bounds(keep);
    const auto numbers = bounds.low == bounds.high ? std::vector<double>{bounds.low} : known.atPositions(draw, keep);
    const std::vector<double> list = numbers.value_or(std::vector<double>());
    constexpr size_t mostListed = 4096; // they are in the program
    if (!list.empty() && list.size() <= mostListed)
      draw->setAttr(ech::kChance, elab.build.builder.getDenseF64ArrayAttr(list));
    if (given.isJudged)
      return;
    auto fits = [&](double x) {
      const double limit = !elab.build.real.isF64() && given.drops ? 0x1p-24 : 0; // 1 - x is 1 in fp32
      return x > limit && x <= 1 + 1e-12;                                         // rounded
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
    Diagnostic &said = elab.error(Code::E0218, given.range, wrong);
    for (const auto &[range, note] : given.calls)
      said.note(range, note);
  });
}

Val builtin::dropout(Elaborator &elab, const CallExpr &call, const Args &args) {
  auto x = elab.read.realTensor(*args["x"], "dropout");
  Val p = elab.eval(*args["p"]);
  if (!x || p.isPoison())
    return Val::poison();
  if (p.kind == Val::Known && (p.number.value() < 0 || p.number.value() >= 1))
    return elab.poison(Code::E0218, args["p"]->range,
                       "the chance to drop is " + p.number.text() + "; it is at least 0 and below 1");
  auto chance = elab.read.realTensor(p, args["p"]->range, "dropout");
  if (!chance)
    return Val::poison();
  if (chance->type().rank() != 0)
    return elab.poison(Code::E0212, args["p"]->range,
                       "the chance to drop is one number, and this has the axes " + ech::describe(chance->type()));
  std::string site = elab.randomSite("dropout");
  if (!elab.isTraining() || (p.kind == Val::Known && p.number.isZero()))
    return *x;
  Value chanceToKeep = p.kind == Val::Known ? elab.build.constant(1 - p.number.value())
                                            : elab.build.sub(elab.build.constant(1), chance->value);
  Value keep = keepBelow(elab, site, x->type().withElement(elab.build.real), chanceToKeep, *args["p"],
                         p.kind == Val::Known, true);
  Value scaled = p.kind == Val::Known ? elab.build.mul(x->value, elab.build.constant(1 / (1 - p.number.value())))
                                      : elab.build.div(x->value, chanceToKeep);
  return elab.tensor(elab.build.select(keep, scaled, elab.build.constant(0)), false, call.range);
}

Val builtin::survive(Elaborator &elab, const CallExpr &call, const Args &args) {
  auto x = elab.read.realTensor(*args["x"], "survive");
  Val p = elab.eval(*args["p"]);
  if (!x || p.isPoison())
    return Val::poison();
  if (p.kind == Val::Known && (p.number.value() <= 0 || p.number.value() > 1))
    return elab.poison(Code::E0218, args["p"]->range,
                       "the chance to survive is " + p.number.text() + "; it is above 0 and at most 1");
  auto chance = elab.read.realTensor(p, args["p"]->range, "survive");
  if (!chance)
    return Val::poison();
  if (chance->type().rank() != 0)
    return elab.poison(Code::E0212, args["p"]->range,
                       "the chance to survive is one number, and this has the axes " + ech::describe(chance->type()));
  if (!elab.batch() || !x->type().has(elab.batch()->name))
    return elab.poison(Code::E0206, args["x"]->range,
                       "survive keeps or drops a sample's branch, and this value has no batch axis; its axes are " +
                           ech::describe(x->type()));
  std::string site = elab.randomSite("survive");
  if (p.kind == Val::Known && p.number == Number::whole(1))
    return *x;
  if (!elab.isTraining())
    return elab.tensor(elab.build.mul(x->value, chance->value), false, call.range);
  auto type = elab.build.type({{elab.batch()->name.getValue(), x->type().sizeOf(elab.batch()->name)}}, elab.build.real);
  Value keep = keepBelow(elab, site, type, chance->value, *args["p"], p.kind == Val::Known, false);
  return elab.tensor(elab.build.select(keep, x->value, elab.build.constant(0)), false, call.range);
}
