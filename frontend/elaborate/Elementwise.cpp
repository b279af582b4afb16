// Element-wise functions: which axes and elements meet, and what of it is known when compiling.
#include "frontend/elaborate/Elementwise.h"
#include "frontend/elaborate/AxisRules.h"
#include "frontend/elaborate/Elaborator.h"
#include "frontend/elaborate/Fold.h"
#include "frontend/elaborate/Operators.h"
#include <algorithm>
#include <cmath>

using namespace mlir;
using namespace echelon::frontend;
namespace ech = echelon::ech;
using ech::Function;

namespace {

bool isLogic(Function f) { return f == Function::And || f == Function::Or || f == Function::Not; }
bool isComparison(Function f) { return f >= Function::Eq && f <= Function::Ge; }
/// Functions that have an integer result where the operands are integers.
bool keepsIntegers(Function f) {
  switch (f) {
  case Function::Add:
  case Function::Sub:
  case Function::Mul:
  case Function::Neg:
  case Function::Abs:
  case Function::Floor:
  case Function::Mod:
  case Function::Max:
  case Function::Min:
  case Function::Select:
    return true;
  default:
    return isComparison(f);
  }
}

constexpr int64_t lowestInteger = -(int64_t(1) << 31), highestInteger = (int64_t(1) << 31) - 1;

/// Bounds of an integer result; nothing where they are not known. They may lie outside of what an integer holds.
std::optional<Interval> bounds(Function f, ArrayRef<std::optional<Interval>> x) {
  if (llvm::any_of(x, [](const auto &i) { return !i; }))
    return std::nullopt;
  auto span = [](std::initializer_list<__int128> values) -> std::optional<Interval> {
    __int128 low = *values.begin(), high = low;
    for (__int128 v : values) {
      low = std::min(low, v);
      high = std::max(high, v);
    }
    constexpr __int128 limit = __int128(1) << 62;
    return Interval{int64_t(std::clamp(low, -limit, limit)), int64_t(std::clamp(high, -limit, limit))};
  };
  Interval a = *x[0], b = x.size() > 1 ? *x[1] : Interval{};
  using Wide = __int128;
  switch (f) {
  case Function::Add:
    return span({Wide(a.low) + b.low, Wide(a.high) + b.high});
  case Function::Sub:
    return span({Wide(a.low) - b.high, Wide(a.high) - b.low});
  case Function::Mul:
    return span({Wide(a.low) * b.low, Wide(a.low) * b.high, Wide(a.high) * b.low, Wide(a.high) * b.high});
  case Function::Neg:
    return span({-Wide(a.low), -Wide(a.high)});
  case Function::Abs:
    return a.low >= 0 ? a : span({0, -Wide(a.low), Wide(a.high) < 0 ? -Wide(a.high) : Wide(a.high)});
  case Function::Floor:
    return a;
  case Function::Mod: // the result has the sign of the divisor
    if (b.low > 0)
      return a.low >= 0 && a.high < b.low ? a : span({0, Wide(b.high) - 1});
    return b.high < 0 ? span({0, Wide(b.low) + 1}) : std::nullopt;
  case Function::Max:
    return Interval{std::max(a.low, b.low), std::max(a.high, b.high)};
  case Function::Min:
    return Interval{std::min(a.low, b.low), std::min(a.high, b.high)};
  case Function::Select:
    return Interval{std::min(b.low, x[2]->low), std::max(b.high, x[2]->high)};
  default:
    return std::nullopt;
  }
}

} // namespace

/// Whether a divisor may be 0: no number that is known, no count of samples, and not bounded away from it.
static bool mayBeZero(const Val &divisor, const std::optional<Interval> &range) {
  bool bounded = range && (range->low > 0 || range->high < 0);
  return divisor.isTensor() && !bounded && !divisor.value.getDefiningOp<ech::CountOp>();
}

Val echelon::frontend::apply(Elaborator &elab, Function f, ArrayRef<Val> given, SourceRange range,
                             const std::string &spelling, bool lifted) {
  SmallVector<Val> operands(given);
  bool isReal = false;
  for (auto [i, v] : llvm::enumerate(operands)) {
    if (v.isPoison())
      return v;
    if (v.kind == Val::Word)
      return elab.poison(Code::E0110, range, "nothing is called " + quoted(v.word));
    const bool truth = v.isTruth();
    bool wantsTruth = isLogic(f) || (f == Function::Select && i == 0);
    bool either = f == Function::Eq || f == Function::Ne || (f == Function::Select && i > 0);
    if (wantsTruth && !truth)
      return elab.poison(Code::E0207, range,
                         (f == Function::Select ? "the condition of `where`" : "`" + spelling + "`") +
                             std::string(f == Function::Select ? " is a truth value" : " takes truth values") +
                             ", and this is a number; a comparison makes one");
    if (truth && !wantsTruth && !either)
      return elab.poison(Code::E0207, range,
                         "`" + spelling + "` takes numbers, and operand " + std::to_string(i + 1) +
                             " is a truth value; where(c, 1, 0) makes numbers of it");
    if (v.isTensor() && v.type().isFloat())
      isReal = true;
    if (v.kind == Val::Known && !v.number.integer())
      isReal = true;
  }
  // Truth values meet truth values only.
  size_t first = f == Function::Select ? 1 : 0;
  if (f == Function::Select || isComparison(f)) {
    if (operands[first].isTruth() != operands[first + 1].isTruth())
      return elab.poison(Code::E0207, range,
                         "`" + spelling +
                             "` meets a truth value and a number; where(c, 1, 0) makes numbers of truth values");
  }
  if (!requireFit(elab, operands, range, spelling, lifted))
    return Val::poison();
  if (f == Function::Eq && operands[0].isTensor() && operands[1].isTensor())
    for (auto [real, whole] : {std::pair(&operands[0], &operands[1]), std::pair(&operands[1], &operands[0])})
      if (real->type().isFloat() && whole->range && !whole->isMade() && real->type().rank() > whole->type().rank())
        elab.warning(Code::E0229, range,
                     "real numbers over " + ech::describe(real->type()) + " are held against whole ones over " +
                         ech::describe(whole->type()) +
                         ", and are hardly ever equal; argmax(…, over = AXIS) gives a place");

  SmallVector<Value> values;
  SmallVector<std::optional<Interval>> ranges;
  bool made = true, integers = keepsIntegers(f) && !isReal;
  for (Val &v : operands) {
    made &= v.isMade();
    if (v.kind == Val::Known && v.number.integer())
      v.range = Interval{*v.number.integer(), *v.number.integer()};
    ranges.push_back(v.range);
    values.push_back(v.isTensor() ? v.value : elab.read.constant(v, integers, range));
  }
  if (f == Function::Mod && integers && !(ranges[1] && (ranges[1]->low > 0 || ranges[1]->high < 0)))
    return elab.poison(
        Code::E0223, range,
        "integers have no remainder by 0, and this divisor may be it" +
            (ranges[1] ? ", between " + std::to_string(ranges[1]->low) + " and " + std::to_string(ranges[1]->high)
                       : "") +
            "; bound it, as max(n, 1) does, or divide the real number x / 1");
  auto known = bounds(f, ranges);
  if (integers && known && (known->low < lowestInteger || known->high > highestInteger))
    return elab.poison(Code::E0218, range,
                       "this integer lies between " + std::to_string(known->low) + " and " +
                           std::to_string(known->high) +
                           ", and integers between -2^31 and 2^31 - 1; x / 1 is the real number");
  if (f == Function::Relu || (f == Function::Floor && isReal))
    for (Value &v : values)
      v = elab.build.toReal(v);
  bool byZero = (f == Function::Div || (f == Function::Mod && !integers)) && mayBeZero(operands[1], ranges[1]);
  bool wholePower = operands.back().kind == Val::Known && operands.back().number.integer().value_or(-1) >= 0;
  bool ofSome = (f == Function::Pow && !wholePower) || f == Function::Exp || f == Function::Log ||
                f == Function::Sqrt || f == Function::Rsqrt;
  if (byZero || ofSome)
    elab.notePartial(spelling == "/" ? "division" : spelling == "^" ? "power" : spelling, range);
  Value result = f == Function::Floor && !isReal ? values[0] : elab.build.map(f, values);
  return elab.tensor(result, made, range, known);
}

Val builtin::elementwise(Elaborator &elab, const CallExpr &call, const Args &args) {
  std::string name = call.callee.parts[0].text;
  const bool lifted = args.lifted;
  if (name == "mod") {
    Val x = elab.eval(*args["a"]), y = elab.eval(*args["b"]);
    if (x.kind == Val::Known && y.kind == Val::Known) {
      if (y.number.isZero())
        return elab.poison(Code::E0223, args["b"]->range, "a number is divided by zero");
      return finite(elab, x.number - (x.number / y.number).floor() * y.number, call.range);
    }
    if (y.kind == Val::Known && y.number.isZero())
      return elab.poison(Code::E0223, args["b"]->range, "a value is divided by zero");
    return apply(elab, Function::Mod, {x, y}, call.range, name, lifted);
  }
  if (name == "clamp") {
    Val x = elab.eval(*args["x"]), lo = elab.eval(*args["lo"]), hi = elab.eval(*args["hi"]);
    if (lo.kind == Val::Known && hi.kind == Val::Known && hi.number < lo.number)
      return elab.poison(Code::E0218, call.range,
                         "clamp between " + lo.number.text() + " and " + hi.number.text() +
                             "; the lower end comes first");
    if (x.kind == Val::Known && lo.kind == Val::Known && hi.kind == Val::Known)
      return Val::known(x.number < lo.number ? lo.number : hi.number < x.number ? hi.number : x.number);
    return apply(elab, Function::Min, {apply(elab, Function::Max, {x, lo}, call.range, name, lifted), hi}, call.range,
                 name, lifted);
  }
  Val x = elab.eval(*args["x"]);
  if (x.isPoison())
    return x;
  if (name == "gelu") {
    auto approximate = elab.read.flag(args["tanh"], false, "tanh");
    if (!approximate)
      return Val::poison();
    if (*approximate)
      return apply(elab, Function::GeluTanh, {x}, call.range, name, lifted);
  }
  if (name == "ceil") {
    if (x.kind == Val::Known)
      return Val::known(x.number.ceil());
    return apply(elab, Function::Neg,
                 {apply(elab, Function::Floor, {apply(elab, Function::Neg, {x}, call.range, name, false)}, call.range,
                        name, false)},
                 call.range, name, false);
  }
  const Function function = unaryFunctions().at(name);
  if (x.kind == Val::Known) {
    if (name == "floor")
      return Val::known(x.number.floor());
    if (name == "abs")
      return Val::known(x.number < Number::whole(0) ? -x.number : x.number);
    const double y = *fold(function, {x.number.value()});
    if (!std::isfinite(y))
      return elab.poison(Code::E0223, call.range, name + "(" + x.number.text() + ") is no number");
    return Val::known(y == std::floor(y) && std::fabs(y) < 1e15 ? Number::whole(static_cast<int64_t>(y))
                                                                : Number::real(y));
  }
  return apply(elab, function, {x}, call.range, name, lifted);
}

Val builtin::maximum(Elaborator &elab, const CallExpr &call, const Args &args) {
  std::string name = call.callee.parts[0].text;
  if (!args["y"] && args.lifted)
    return elab.poison(Code::E0205, call.range,
                       "outer(…) pairs two values, as in outer(" + name + "(a, b)), and this is " + name + " of one");
  if (!args["y"] && elab.read.isInSize())
    return elab.poison(Code::E0208, call.range, "in a size, " + name + " is of two numbers: " + name + "(a, b)");
  if (!args["y"])
    return builtin::reduction(elab, call, args);
  if (args["over"] || args["where"])
    return elab.poison(Code::E0118, call.range,
                       name + " is either of two values, or over the axes of one: " + name + "(a, b), " + name +
                           "(x, over = …)");
  Val x = elab.eval(*args["x"]), y = elab.eval(*args["y"]);
  if (x.kind == Val::Known && y.kind == Val::Known)
    return (x.number < y.number) == (name == "max") ? y : x;
  return apply(elab, name == "max" ? Function::Max : Function::Min, {x, y}, call.range, name, args.lifted);
}

Val builtin::where(Elaborator &elab, const CallExpr &call, const Args &args) {
  Val c = elab.eval(*args["c"]), x = elab.eval(*args["a"]), y = elab.eval(*args["b"]);
  if (c.isPoison() || x.isPoison() || y.isPoison())
    return Val::poison();
  if (c.kind == Val::Truth)
    return c.truth ? x : y;
  Val result = apply(elab, Function::Select, {c, x, y}, call.range, "where", args.lifted);
  if (result.isTensor() && !result.range && result.type().getElement().isInteger(32)) {
    auto known = [](const Val &v) -> std::optional<Interval> {
      if (v.kind == Val::Known && v.number.integer())
        return Interval{*v.number.integer(), *v.number.integer()};
      return v.range;
    };
    auto p = known(x), q = known(y);
    if (p && q)
      result.range = Interval{std::min(p->low, q->low), std::max(p->high, q->high)};
  }
  return result;
}

Val builtin::size(Elaborator &elab, const CallExpr &, const Args &args) {
  const AxisInfo *axis = elab.read.axis(*args["axis"], "the argument of size");
  if (!axis || axis->isWrong)
    return Val::poison();
  if (axis->countsSamples()) {
    if (elab.read.isInSize())
      return elab.poison(Code::E0208, args["axis"]->range,
                         "the size of " + elab.scopes.written(axis->name) +
                             " is the run's, so no other size follows from it");
    while (!axis->isBatch) // another name of the samples: as many in evaluation, too
      axis = axis->like;
    return elab.tensor(elab.build.count(axis->name.getValue(),
                                        elab.build.type({{axis->name.getValue(), axis->size}}, elab.build.real)),
                       true, args["axis"]->range);
  }
  return Val::known(Number::whole(axis->size));
}

Val builtin::index(Elaborator &elab, const CallExpr &call, const Args &args) {
  const AxisInfo *axis = elab.read.axis(*args["axis"], "the argument of index");
  if (!axis || axis->isWrong)
    return Val::poison();
  if (axis->countsSamples())
    return elab.poison(Code::E0219, args["axis"]->range,
                       "samples have no order, so there is no index(" + elab.scopes.written(axis->name) + ")");
  Value value =
      elab.loops.isWalked(axis->name) ? elab.build.position(axis->name) : elab.build.index(axis->name, axis->size);
  return elab.tensor(value, true, call.range, Interval{0, axis->size - 1});
}

Val builtin::stopGradient(Elaborator &elab, const CallExpr &call, const Args &args) {
  Val x = elab.eval(*args["x"]);
  if (!x.isTensor() || !x.type().isFloat())
    return x;
  return elab.tensor(elab.build.map(Function::StopGradient, {x.value}), x.made, call.range);
}
