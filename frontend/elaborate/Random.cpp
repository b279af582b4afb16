// dropout and survive. A random value is keyed by its site: the path of the call around it and the statement's name.
#include "frontend/elaborate/Lowering.h"
#include "llvm/ADT/StringMap.h"

#include <cmath>

using namespace mlir;
using namespace echelon::frontend;
namespace ech = echelon::ech;
using ech::Function;

std::string Lowering::randomSite(const std::string &base) {
  // `mlp.dropout`, `mlp.dropout_2`: numbered within a call, so that a branch not taken elsewhere changes nothing here.
  int n = ++randomSites[scope->prefix + base];
  return scope->prefix + base + (n == 1 ? "" : "_" + std::to_string(n));
}

Value Lowering::keepBelow(const std::string &site, ech::Tensor type, Value chance) {
  Value draw = build.random(ech::Distribution::Uniform, site, 0, 1, type);
  draw.getDefiningOp()->setAttr(ech::kChance, builder.getUnitAttr());
  return build.map(Function::Lt, {draw, chance});
}

namespace {

/// The value of what is made of numbers and positions of repeats only.
std::optional<double> knownNumber(Value value, const llvm::StringMap<int64_t> &positions) {
  Operation *op = value.getDefiningOp();
  if (auto constant = dyn_cast_or_null<ech::ConstantOp>(op))
    return constant.getValue().convertToDouble();
  if (auto position = dyn_cast_or_null<ech::PositionOp>(op))
    return positions.lookup(position.getAxis());
  auto map = dyn_cast_or_null<ech::MapOp>(op);
  if (!map)
    return std::nullopt;
  SmallVector<double> x;
  for (Value operand : map.getOperands()) {
    std::optional<double> known = knownNumber(operand, positions);
    if (!known)
      return std::nullopt;
    x.push_back(*known);
  }
  switch (map.getFunction()) {
  case Function::Cast:
    return x[0];
  case Function::Neg:
    return -x[0];
  case Function::Add:
    return x[0] + x[1];
  case Function::Sub:
    return x[0] - x[1];
  case Function::Mul:
    return x[0] * x[1];
  case Function::Div:
    return x[0] / x[1];
  case Function::Pow:
    return std::pow(x[0], x[1]);
  default:
    return std::nullopt;
  }
}

/// The number at each position of the repeats around `op`, the outermost slowest; empty where it is not known.
std::vector<double> numberPerPosition(Operation *op, Value value) {
  SmallVector<ech::RepeatOp> repeats;
  for (auto r = op->getParentOfType<ech::RepeatOp>(); r; r = r->getParentOfType<ech::RepeatOp>())
    repeats.push_back(r);
  int64_t count = 1;
  for (ech::RepeatOp r : repeats)
    count *= static_cast<int64_t>(r.getCount());
  std::vector<double> list;
  for (int64_t i = 0; i < count; ++i) {
    llvm::StringMap<int64_t> positions;
    int64_t rest = i;
    for (ech::RepeatOp r : repeats) {
      positions[r.getAxis()] = rest % static_cast<int64_t>(r.getCount());
      rest /= static_cast<int64_t>(r.getCount());
    }
    std::optional<double> known = knownNumber(value, positions);
    if (!known)
      return {};
    list.push_back(*known);
  }
  return list;
}

} // namespace

void Lowering::noteChances() {
  step.walk([&](ech::RandomOp draw) {
    if (!draw->hasAttr(ech::kChance))
      return;
    draw->removeAttr(ech::kChance);
    std::vector<double> chances = numberPerPosition(draw, (*draw->user_begin())->getOperand(1));
    if (!chances.empty())
      draw->setAttr(ech::kChance, builder.getDenseF64ArrayAttr(chances));
  });
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
  std::string site = randomSite("dropout");
  if (!training || (p.kind == Val::Known && p.number.isZero()))
    return *x;
  Value chanceToKeep =
      p.kind == Val::Known ? build.constant(1 - p.number.value()) : build.sub(build.constant(1), chance->value);
  Value keep = keepBelow(site, x->type().withElement(build.real), chanceToKeep);
  Value scaled = p.kind == Val::Known ? build.mul(x->value, build.constant(1 / (1 - p.number.value())))
                                      : build.div(x->value, chanceToKeep);
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
  std::string site = randomSite("survive");
  if (p.kind == Val::Known && p.number == Number::whole(1))
    return *x;
  if (!training)
    return tensor(build.mul(x->value, chance->value), false, e.range);
  auto type = build.type({{batchAxis->name.getValue(), x->type().sizeOf(batchAxis->name)}}, build.real);
  Value keep = keepBelow(site, type, chance->value);
  return tensor(build.select(keep, x->value, build.constant(0)), false, e.range);
}
