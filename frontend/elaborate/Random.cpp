// dropout and survive. A random value is keyed by its site: the path of the call around it and the statement's name.
#include "frontend/elaborate/Lowering.h"
#include "llvm/ADT/StringMap.h"

#include <algorithm>
#include <cmath>
#include <limits>

using namespace mlir;
using namespace echelon::frontend;
namespace ech = echelon::ech;
using ech::Function;

std::string Lowering::randomSite(const std::string &base) {
  // `mlp.dropout`, `mlp.dropout_2`: numbered within a call, so that a branch not taken elsewhere changes nothing here.
  int n = ++randomSites[scope->prefix + base];
  return scope->prefix + base + (n == 1 ? "" : "_" + std::to_string(n));
}

Value Lowering::keepBelow(const std::string &site, ech::Tensor type, Value chance, const Expr &given, bool drops) {
  Value draw = build.random(ech::Distribution::Uniform, site, 0, 1, type);
  draw.getDefiningOp()->setAttr(ech::kChance, builder.getUnitAttr());
  Chance &noted = chances[draw.getDefiningOp()] = {usersPlace(given.range), drops, {}};
  for (const Scope *s = scope; s && s->caller && noted.calls.size() < 3; s = s->caller)
    if (!s->isLibrary)
      noted.calls.push_back({s->callRange, s->block->name.text + " is called here"});
  return build.map(Function::Lt, {draw, chance});
}

namespace {

/// Both included; infinite where nothing is known.
struct Bounds {
  double low = -std::numeric_limits<double>::infinity(), high = std::numeric_limits<double>::infinity();
};

/// The function of numbers; nothing where it is a derivative or an approximation, of which no chance is made.
std::optional<double> ofNumbers(Function function, ArrayRef<double> x) {
  switch (function) {
  case Function::Cast:
  case Function::StopGradient:
    return x[0];
  case Function::Exp:
    return std::exp(x[0]);
  case Function::Log:
    return std::log(x[0]);
  case Function::Sqrt:
    return std::sqrt(x[0]);
  case Function::Rsqrt:
    return 1 / std::sqrt(x[0]);
  case Function::Sin:
    return std::sin(x[0]);
  case Function::Cos:
    return std::cos(x[0]);
  case Function::Tanh:
    return std::tanh(x[0]);
  case Function::Erf:
    return std::erf(x[0]);
  case Function::Sigmoid:
    return 1 / (1 + std::exp(-x[0]));
  case Function::Relu:
    return x[0] < 0 ? 0 : x[0];
  case Function::Silu:
    return x[0] / (1 + std::exp(-x[0]));
  case Function::Gelu:
    return 0.5 * x[0] * (1 + std::erf(x[0] / std::sqrt(2.0)));
  case Function::Abs:
    return std::abs(x[0]);
  case Function::Mod:
    return x[0] - x[1] * std::floor(x[0] / x[1]);
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
  case Function::Floor:
    return std::floor(x[0]);
  case Function::Max: // no number where either is none
    return std::isnan(x[1]) ? x[1] : std::max(x[0], x[1]);
  case Function::Min:
    return std::isnan(x[1]) ? x[1] : std::min(x[0], x[1]);
  case Function::And:
    return x[0] != 0 && x[1] != 0;
  case Function::Or:
    return x[0] != 0 || x[1] != 0;
  case Function::Not:
    return x[0] == 0;
  case Function::Eq:
    return x[0] == x[1];
  case Function::Ne:
    return x[0] != x[1];
  case Function::Lt:
    return x[0] < x[1];
  case Function::Le:
    return x[0] <= x[1];
  case Function::Gt:
    return x[0] > x[1];
  case Function::Ge:
    return x[0] >= x[1];
  case Function::Select:
    return x[0] != 0 ? x[1] : x[2];
  default:
    return std::nullopt;
  }
}

Bounds ofBounds(Function function, ArrayRef<Bounds> x) {
  switch (function) {
  case Function::Cast:
  case Function::StopGradient:
    return x[0];
  case Function::Neg:
    return {-x[0].high, -x[0].low};
  case Function::Max:
    return {std::max(x[0].low, x[1].low), std::max(x[0].high, x[1].high)};
  case Function::Min:
    return {std::min(x[0].low, x[1].low), std::min(x[0].high, x[1].high)};
  case Function::Select:
    return {std::min(x[1].low, x[2].low), std::max(x[1].high, x[2].high)};
  case Function::Sigmoid:
    return {0, 1};
  case Function::Add:
  case Function::Sub:
  case Function::Mul:
  case Function::Div: {
    if (function == Function::Div && x[1].low <= 0 && x[1].high >= 0)
      return {};
    Bounds all = {std::numeric_limits<double>::infinity(), -std::numeric_limits<double>::infinity()};
    for (double a : {x[0].low, x[0].high})
      for (double b : {x[1].low, x[1].high}) { // the ends lie at ends
        const double end = *ofNumbers(function, {a, b});
        if (!std::isfinite(end))
          return {};
        all = {std::min(all.low, end), std::max(all.high, end)};
      }
    return all;
  }
  default:
    return {};
  }
}

/// What is known of the chances of a step's draws.
class Chances {
public:
  /// `value` for all inputs, parameters and positions.
  Bounds bounds(Value value) {
    for (Operation *op : sources(value, known, std::numeric_limits<size_t>::max())) {
      SmallVector<Bounds> x;
      for (Value operand : op->getOperands())
        x.push_back(known.lookup(operand));
      Bounds &of = known[op->getResult(0)];
      if (auto constant = dyn_cast<ech::ConstantOp>(op))
        of.low = of.high = constant.getValue().convertToDouble();
      else if (auto position = dyn_cast<ech::PositionOp>(op))
        of = {0, lastPosition(position)};
      else if (auto map = dyn_cast<ech::MapOp>(op))
        of = ofBounds(map.getFunction(), x);
    }
    return known.lookup(value);
  }

  /// The number at each position of the repeats around `op`, the outermost slowest; empty where it is not made of
  /// numbers and positions alone, or where that is too much work.
  std::vector<double> atPositions(Operation *op, Value value) {
    SmallVector<ech::RepeatOp> repeats;
    size_t count = 1;
    for (auto r = op->getParentOfType<ech::RepeatOp>(); r; r = r->getParentOfType<ech::RepeatOp>()) {
      repeats.push_back(r);
      count *= std::min<size_t>(r.getCount(), work + 1);
      if (count > work)
        return {};
    }
    llvm::DenseMap<Value, double> numbers;
    const std::vector<Operation *> order = sources(value, numbers, work / count);
    std::vector<double> list;
    for (size_t i = 0; i < count && !order.empty(); ++i) {
      llvm::StringMap<int64_t> positions;
      size_t rest = i;
      for (ech::RepeatOp r : repeats) {
        positions[r.getAxis()] = static_cast<int64_t>(rest % r.getCount());
        rest /= r.getCount();
      }
      for (Operation *source : order) {
        std::optional<double> number = numberOf(source, positions, numbers);
        if (!number)
          return {};
        numbers[source->getResult(0)] = *number;
      }
      work -= order.size();
      list.push_back(numbers.lookup(value));
    }
    return list;
  }

private:
  static double lastPosition(ech::PositionOp position) {
    for (auto r = position->getParentOfType<ech::RepeatOp>(); r; r = r->getParentOfType<ech::RepeatOp>())
      if (r.getAxis() == position.getAxis())
        return static_cast<double>(r.getCount()) - 1;
    return std::numeric_limits<double>::infinity();
  }

  /// The operations that `value` is made by, each behind those of its operands; without those whose results are `done`.
  /// Empty where there are more than `most`.
  template <typename T>
  static std::vector<Operation *> sources(Value value, const llvm::DenseMap<Value, T> &done, size_t most) {
    std::vector<Operation *> order;
    llvm::DenseSet<Operation *> seen;
    std::vector<std::pair<Operation *, unsigned>> open; // and its next operand
    auto look = [&](Value v) {
      Operation *op = v.getDefiningOp();
      if (op && op->getNumResults() == 1 && !done.count(v) && seen.insert(op).second)
        open.push_back({op, 0});
    };
    for (look(value); !open.empty() && seen.size() <= most;) {
      auto &[op, next] = open.back();
      if (isa<ech::MapOp>(op) && next < op->getNumOperands()) {
        look(op->getOperand(next++));
        continue;
      }
      order.push_back(op);
      open.pop_back();
    }
    return open.empty() ? order : std::vector<Operation *>();
  }

  static std::optional<double> numberOf(Operation *op, const llvm::StringMap<int64_t> &positions,
                                        const llvm::DenseMap<Value, double> &numbers) {
    if (auto constant = dyn_cast<ech::ConstantOp>(op))
      return constant.getValue().convertToDouble();
    if (auto position = dyn_cast<ech::PositionOp>(op))
      return positions.lookup(position.getAxis());
    auto map = dyn_cast<ech::MapOp>(op);
    if (!map)
      return std::nullopt;
    SmallVector<double> x;
    for (Value operand : map.getOperands()) {
      auto number = numbers.find(operand);
      if (number == numbers.end())
        return std::nullopt;
      x.push_back(number->second);
    }
    return ofNumbers(map.getFunction(), x);
  }

  llvm::DenseMap<Value, Bounds> known;
  size_t work = 4'000'000; // so that 10 s are enough for any model
};

/// "a = 1, b = 3": at which positions of the repeats around `op` the number of this index stands.
std::string positionsOf(Operation *op, size_t index) {
  std::string text;
  for (auto r = op->getParentOfType<ech::RepeatOp>(); r; r = r->getParentOfType<ech::RepeatOp>()) {
    text = r.getAxis().str() + " = " + std::to_string(index % r.getCount()) + (text.empty() ? "" : ", ") + text;
    index /= r.getCount();
  }
  return text;
}

} // namespace

void Lowering::noteChances() {
  Chances known;
  step.walk([&](ech::RandomOp draw) {
    if (!draw->hasAttr(ech::kChance))
      return;
    draw->removeAttr(ech::kChance);
    const Chance &given = chances[draw];
    const Value keep = (*draw->user_begin())->getOperand(1);
    const Bounds bounds = known.bounds(keep);
    const std::vector<double> list =
        bounds.low == bounds.high ? std::vector<double>{bounds.low} : known.atPositions(draw, keep);
    if (!list.empty())
      draw->setAttr(ech::kChance, builder.getDenseF64ArrayAttr(list));
    if (isa_and_nonnull<ech::ConstantOp>(keep.getDefiningOp())) // looked at where it is given
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
      wrong = what + " is worked out while training, and nothing keeps it " + ends + "; write clamp(…, " +
              (given.drops ? "0, 0.9)" : "0.1, 1)");
    }
    if (wrong.empty())
      return;
    Diagnostic &said = error(Code::E0218, given.range, wrong);
    for (const auto &[range, note] : given.calls)
      said.note(range, note);
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
  Value keep = keepBelow(site, x->type().withElement(build.real), chanceToKeep, *args["p"], true);
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
  Value keep = keepBelow(site, type, chance->value, *args["p"], false);
  return tensor(build.select(keep, x->value, build.constant(0)), false, e.range);
}
