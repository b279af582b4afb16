// Element-wise functions: which axes and elements meet, and what of it is known when compiling.
#include "frontend/elaborate/Elaborator.h"
#include "frontend/elaborate/Fold.h"
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

/// Where a value is an argmax over an axis that the other value has, and kept one that it lacks: "; write argmax …".
std::string Elaborator::otherArgMax(const Val &places, const Val &other) const {
  auto op = places.isTensor() ? places.value.getDefiningOp<ech::ArgMaxOp>() : ech::ArgMaxOp();
  if (!op || !other.isTensor())
    return "";
  ech::Tensor from = ech::tensor(op->getOperand(0)), wanted = other.type();
  std::string over, instead;
  for (const ech::Axis &axis : from.getAxes()) {
    if (!places.type().has(axis.name))
      over = written(axis.name);
    if (!wanted.has(axis.name) && !std::exchange(instead, written(axis.name)).empty())
      return ""; // argmax runs over one
  }
  bool all = llvm::all_of(wanted.getAxes(), [&](const ech::Axis &axis) { return from.has(axis.name); });
  if (!all || instead.empty())
    return "";
  return "; argmax over " + over + " leaves " + ech::describe(places.type()) + ", argmax(…, over = " + instead +
         ") leaves " + ech::describe(wanted);
}

bool Elaborator::axesFit(ArrayRef<Val> operands, SourceRange range, const std::string &spelling, bool lifted) {
  // Two sizes of one name never meet.
  for (auto [i, a] : llvm::enumerate(operands))
    for (const Val &b : operands.drop_front(i + 1))
      if (a.isTensor() && b.isTensor() && !sizesAgree(a.type(), b.type(), range, "`" + spelling + "`"))
        return false;
  if (lifted)
    return true;
  const Val *widest = nullptr;
  for (const Val &v : operands)
    if (!v.isMade() && (!widest || v.type().rank() > widest->type().rank()))
      widest = &v;
  for (const Val &v : operands) {
    if (v.isMade() || &v == widest)
      continue;
    for (const ech::Axis &axis : v.type().getAxes())
      if (!widest->type().has(axis.name)) {
        std::string same; // another name for one axis?
        for (const ech::Axis &other : widest->type().getAxes())
          if (!v.type().has(other.name) && other.size == axis.size && !(batchAxis && other.name == batchAxis->name) &&
              !(batchAxis && axis.name == batchAxis->name))
            same = "; if " + written(axis.name) + " is " + written(other.name) + ", declare it with " +
                   written(other.name) + ", or rename it: (…)[" + written(axis.name) + " -> " + written(other.name) +
                   "]";
        bool isWord = std::isalpha(static_cast<unsigned char>(spelling[0])) && spelling != "and" && spelling != "or";
        const std::string pairs =
            "; outer(" + (isWord ? spelling + "(…)" : "a " + spelling + " b") + ") pairs each with each";
        std::string other = otherArgMax(v, *widest);
        if (other.empty())
          other = otherArgMax(*widest, v);
        error(Code::E0205, range,
              "neither operand's axes contain the other's: " + ech::describe(widest->type()) + " and " +
                  ech::describe(v.type()) +
                  (!other.empty()  ? other
                   : !same.empty() ? same + pairs
                                   : "; give both the same axes" + pairs));
        return false;
      }
  }
  return true;
}

/// Whether a divisor may be 0: no number that is known, no count of samples, and not bounded away from it.
static bool mayBeZero(const Val &divisor, const std::optional<Interval> &range) {
  bool bounded = range && (range->low > 0 || range->high < 0);
  return divisor.isTensor() && !bounded && !divisor.value.getDefiningOp<ech::CountOp>();
}

Val Elaborator::apply(Function f, ArrayRef<Val> given, SourceRange range, const std::string &spelling, bool lifted) {
  SmallVector<Val> operands(given);
  lifted |= std::exchange(lift, false);
  bool isReal = false;
  for (auto [i, v] : llvm::enumerate(operands)) {
    if (v.isPoison())
      return v;
    if (v.kind == Val::Word)
      return poison(Code::E0110, range, "nothing is called " + quoted(v.word));
    bool truth = v.kind == Val::Truth || (v.isTensor() && v.type().getElement().isInteger(1));
    bool wantsTruth = isLogic(f) || (f == Function::Select && i == 0);
    bool either = f == Function::Eq || f == Function::Ne || (f == Function::Select && i > 0);
    if (wantsTruth && !truth)
      return poison(Code::E0207, range,
                    (f == Function::Select ? "the condition of `where`" : "`" + spelling + "`") +
                        std::string(f == Function::Select ? " is a truth value" : " takes truth values") +
                        ", and this is a number; a comparison makes one");
    if (truth && !wantsTruth && !either)
      return poison(Code::E0207, range,
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
    auto truth = [](const Val &v) {
      return v.kind == Val::Truth || (v.isTensor() && v.type().getElement().isInteger(1));
    };
    if (truth(operands[first]) != truth(operands[first + 1]))
      return poison(Code::E0207, range,
                    "`" + spelling +
                        "` meets a truth value and a number; where(c, 1, 0) makes numbers of truth values");
  }
  if (!axesFit(operands, range, spelling, lifted))
    return Val::poison();
  if (f == Function::Eq && operands[0].isTensor() && operands[1].isTensor())
    for (auto [real, whole] : {std::pair(&operands[0], &operands[1]), std::pair(&operands[1], &operands[0])})
      if (real->type().isFloat() && whole->range && !whole->isMade() && real->type().rank() > whole->type().rank())
        shared.diagnostics.warning(Code::E0229, usersPlace(range),
                                   "real numbers over " + ech::describe(real->type()) +
                                       " are held against whole ones over " + ech::describe(whole->type()) +
                                       ", and are hardly ever equal; argmax(…, over = AXIS) gives a place");

  SmallVector<Value> values;
  SmallVector<std::optional<Interval>> ranges;
  bool made = true, integers = keepsIntegers(f) && !isReal;
  for (Val &v : operands) {
    made &= v.isMade();
    if (v.kind == Val::Known && v.number.integer())
      v.range = Interval{*v.number.integer(), *v.number.integer()};
    ranges.push_back(v.range);
    values.push_back(v.isTensor() ? v.value : constantLike(v, integers, range));
  }
  if (f == Function::Mod && integers && !(ranges[1] && (ranges[1]->low > 0 || ranges[1]->high < 0)))
    return poison(Code::E0223, range,
                  "integers have no remainder by 0, and this divisor may be it" +
                      (ranges[1]
                           ? ", between " + std::to_string(ranges[1]->low) + " and " + std::to_string(ranges[1]->high)
                           : "") +
                      "; bound it, as max(n, 1) does, or divide the real number x / 1");
  auto known = bounds(f, ranges);
  if (integers && known && (known->low < lowestInteger || known->high > highestInteger))
    return poison(Code::E0218, range,
                  "this integer lies between " + std::to_string(known->low) + " and " + std::to_string(known->high) +
                      ", and integers between -2^31 and 2^31 - 1; x / 1 is the real number");
  if (f == Function::Relu || (f == Function::Floor && isReal))
    for (Value &v : values)
      v = build.toReal(v);
  bool byZero = (f == Function::Div || (f == Function::Mod && !integers)) && mayBeZero(operands[1], ranges[1]);
  bool wholePower = operands.back().kind == Val::Known && operands.back().number.integer().value_or(-1) >= 0;
  bool ofSome = (f == Function::Pow && !wholePower) || f == Function::Exp || f == Function::Log ||
                f == Function::Sqrt || f == Function::Rsqrt;
  if (byZero || ofSome)
    notePartial(spelling == "/" ? "division" : spelling == "^" ? "power" : spelling, range);
  Value result = f == Function::Floor && !isReal ? values[0] : build.map(f, values);
  return tensor(result, made, range, known);
}

void Elaborator::notePartial(StringRef function, SourceRange range) {
  auto place = dyn_cast<FileLineColLoc>(location(usersPlace(range)));
  if (!place || scope->isLibrary)
    return;
  Location line = FileLineColLoc::get(place.getFilename(), place.getLine(), 1);
  shared.partialFunctions.insert(NameLoc::get(builder.getStringAttr(function), line));
}

Val Elaborator::raise(const Val &base, const Val &exponent, SourceRange range, bool lifted) {
  if (base.kind == Val::Known && exponent.kind == Val::Known) {
    if (base.number.isZero() && exponent.number < Number::whole(0))
      return poison(Code::E0223, range, "zero has no negative powers");
    return finite(base.number.power(exponent.number), range);
  }
  if (exponent.kind == Val::Known && base.isTensor() && !base.type().getElement().isInteger(1)) {
    // Small whole powers are products, which are faster and have exact derivatives.
    Val x = base;
    x.value = build.toReal(x.value);
    if (auto n = exponent.number.integer(); n && *n >= -4 && *n <= 4) {
      if (*n == 0) // 1 at every place
        return tensor(build.expandTo(build.constant(1), x.type().withElement(build.real)), base.made, range);
      Value product = x.value;
      for (int64_t i = 1; i < std::llabs(*n); ++i)
        product = build.mul(product, x.value);
      if (*n < 0) {
        notePartial("power", range);
        product = build.div(build.constant(1), product);
      }
      return tensor(product, base.made, range);
    }
    if (exponent.number == Number::fraction(1, 2))
      return apply(Function::Sqrt, {x}, range, "^", lifted);
    if (exponent.number == Number::fraction(-1, 2))
      return apply(Function::Rsqrt, {x}, range, "^", lifted);
  }
  return apply(Function::Pow, {base, exponent}, range, "^", lifted);
}

Val Elaborator::elementwise(const CallExpr &e, const Args &a) {
  std::string name = e.callee.parts[0].text;
  bool lifted = std::exchange(lift, false);
  if (name == "mod") {
    Val x = eval(*a["a"]), y = eval(*a["b"]);
    if (x.kind == Val::Known && y.kind == Val::Known) {
      if (y.number.isZero())
        return poison(Code::E0223, a["b"]->range, "a number is divided by zero");
      return Val::known(x.number - (x.number / y.number).floor() * y.number);
    }
    if (y.kind == Val::Known && y.number.isZero())
      return poison(Code::E0223, a["b"]->range, "a value is divided by zero");
    return apply(Function::Mod, {x, y}, e.range, name, lifted);
  }
  if (name == "clamp") {
    Val x = eval(*a["x"]), lo = eval(*a["lo"]), hi = eval(*a["hi"]);
    if (lo.kind == Val::Known && hi.kind == Val::Known && hi.number < lo.number)
      return poison(Code::E0218, e.range,
                    "clamp between " + lo.number.text() + " and " + hi.number.text() + "; the lower end comes first");
    if (x.kind == Val::Known && lo.kind == Val::Known && hi.kind == Val::Known)
      return Val::known(x.number < lo.number ? lo.number : hi.number < x.number ? hi.number : x.number);
    return apply(Function::Min, {apply(Function::Max, {x, lo}, e.range, name, lifted), hi}, e.range, name, lifted);
  }
  Val x = eval(*a["x"]);
  if (x.isPoison())
    return x;
  if (name == "gelu") {
    auto approximate = flag(a["tanh"], false, "tanh");
    if (!approximate)
      return Val::poison();
    if (*approximate)
      return apply(Function::GeluTanh, {x}, e.range, name, lifted);
  }
  if (name == "ceil") {
    if (x.kind == Val::Known)
      return Val::known(x.number.ceil());
    return apply(Function::Neg,
                 {apply(Function::Floor, {apply(Function::Neg, {x}, e.range, name, false)}, e.range, name, false)},
                 e.range, name, false);
  }
  const Function function = unaryFunctions().at(name);
  if (x.kind == Val::Known) {
    if (name == "floor")
      return Val::known(x.number.floor());
    if (name == "abs")
      return Val::known(x.number < Number::whole(0) ? -x.number : x.number);
    const double y = *fold(function, {x.number.value()});
    if (!std::isfinite(y))
      return poison(Code::E0223, e.range, name + "(" + x.number.text() + ") is no number");
    return Val::known(y == std::floor(y) && std::fabs(y) < 1e15 ? Number::whole(static_cast<int64_t>(y))
                                                                : Number::real(y));
  }
  return apply(function, {x}, e.range, name, lifted);
}

Val Elaborator::maximum(const CallExpr &e, const Args &a) {
  if (!a["y"])
    return reduction(e, a);
  std::string name = e.callee.parts[0].text;
  bool lifted = std::exchange(lift, false);
  if (a["over"] || a["where"])
    return poison(Code::E0118, e.range,
                  name + " is either of two values, or over the axes of one: " + name + "(a, b), " + name +
                      "(x, over = …)");
  Val x = eval(*a["x"]), y = eval(*a["y"]);
  if (x.kind == Val::Known && y.kind == Val::Known)
    return (x.number < y.number) == (name == "max") ? y : x;
  return apply(name == "max" ? Function::Max : Function::Min, {x, y}, e.range, name, lifted);
}

Val Elaborator::whereCall(const CallExpr &e, const Args &a) {
  bool lifted = std::exchange(lift, false);
  Val c = eval(*a["c"]), x = eval(*a["a"]), y = eval(*a["b"]);
  if (c.isPoison() || x.isPoison() || y.isPoison())
    return Val::poison();
  if (c.kind == Val::Truth)
    return c.truth ? x : y;
  Val result = apply(Function::Select, {c, x, y}, e.range, "where", lifted);
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

Val Elaborator::outer(const CallExpr &e, const Args &a) {
  const Expr &inner = *a["e"];
  if (const auto *chain = dynCast<ArithmeticExpr>(&inner)) {
    if (chain->rest.size() > 1)
      return poison(Code::E0205, inner.range,
                    "outer(…) pairs the two operands of one operation; give the others an outer(…) of their own");
    return arithmetic(*chain, true);
  }
  if (const auto *c = dynCast<CompareExpr>(&inner))
    return compare(*c, true);
  if (const auto *l = dynCast<LogicExpr>(&inner))
    return logic(*l, true);
  if (const auto *p = dynCast<PowerExpr>(&inner))
    return power(*p, true);
  static const std::set<std::string> calls{"max", "min", "mod", "where", "clamp"};
  if (const auto *c = dynCast<CallExpr>(&inner); c && c->callee.single() && calls.count(c->callee.parts[0].text)) {
    lift = true;
    Val v = eval(inner);
    lift = false;
    return v;
  }
  return poison(Code::E0205, inner.range, "outer(…) takes one operation of two operands, as in outer(a + b)");
}

Val Elaborator::sizeCall(const CallExpr &, const Args &a) {
  const AxisInfo *axis = axisOf(*a["axis"], "the argument of size");
  if (!axis || axis->isWrong)
    return Val::poison();
  if (axis->countsSamples()) {
    if (inSize)
      return poison(Code::E0208, a["axis"]->range,
                    "the size of " + written(axis->name) + " is the run's, so no other size follows from it");
    while (!axis->isBatch) // another name of the samples: as many in evaluation, too
      axis = axis->like;
    return tensor(build.count(axis->name.getValue(), build.type({{axis->name.getValue(), axis->size}}, build.real)),
                  true, a["axis"]->range);
  }
  return Val::known(Number::whole(axis->size));
}

Val Elaborator::indexCall(const CallExpr &e, const Args &a) {
  const AxisInfo *axis = axisOf(*a["axis"], "the argument of index");
  if (!axis || axis->isWrong)
    return Val::poison();
  if (axis->countsSamples())
    return poison(Code::E0219, a["axis"]->range,
                  "samples have no order, so there is no index(" + written(axis->name) + ")");
  Value value = isWalked(axis->name) ? build.position(axis->name) : build.index(axis->name, axis->size);
  return tensor(value, true, e.range, Interval{0, axis->size - 1});
}

Val Elaborator::stopGradient(const CallExpr &e, const Args &a) {
  Val x = eval(*a["x"]);
  if (!x.isTensor() || !x.type().isFloat())
    return x;
  return tensor(build.map(Function::StopGradient, {x.value}), x.made, e.range);
}
