// Operators, on numbers and truth values that are known when compiling, and on tensors.
#include "frontend/elaborate/Operators.h"
#include "frontend/elaborate/Elaborator.h"
#include "frontend/elaborate/Elementwise.h"
#include <cmath>
#include <set>

using namespace mlir;
using namespace echelon::frontend;
namespace ech = echelon::ech;
using ech::Function;

Val echelon::frontend::finite(Elaborator &elab, const Number &n, SourceRange range) {
  if (std::isfinite(n.value()))
    return Val::known(n);
  return elab.poison(Code::E0223, range,
                     "what is worked out here is " + (std::isnan(n.value()) ? "" : n.text() + ", ") + "no number");
}

static Val foldTwo(Elaborator &elab, char op, const Val &a, const Val &b, SourceRange range) {
  if (op == '/' && b.number.isZero())
    return elab.poison(Code::E0223, range, "a number is divided by zero");
  return finite(elab,
                op == '+'   ? a.number + b.number
                : op == '-' ? a.number - b.number
                : op == '*' ? a.number * b.number
                            : a.number / b.number,
                range);
}

static Val raise(Elaborator &elab, const Val &base, const Val &exponent, SourceRange range, bool lifted) {
  if (base.kind == Val::Known && exponent.kind == Val::Known) {
    if (base.number.isZero() && exponent.number < Number::whole(0))
      return elab.poison(Code::E0223, range, "zero has no negative powers");
    return finite(elab, base.number.power(exponent.number), range);
  }
  if (exponent.kind == Val::Known && base.isTensor() && !base.isTruth()) {
    // Small whole powers are products, which are faster and have exact derivatives.
    Val x = base;
    x.value = elab.build.toReal(x.value);
    if (auto n = exponent.number.integer(); n && *n >= -4 && *n <= 4) {
      if (*n == 0) // 1 at every place
        return elab.tensor(elab.build.expandTo(elab.build.constant(1), x.type().withElement(elab.build.real)),
                           base.made, range);
      Value product = x.value;
      for (int64_t i = 1; i < std::llabs(*n); ++i)
        product = elab.build.mul(product, x.value);
      if (*n < 0) {
        elab.notePartial("power", range);
        product = elab.build.div(elab.build.constant(1), product);
      }
      return elab.tensor(product, base.made, range);
    }
    if (exponent.number == Number::fraction(1, 2))
      return apply(elab, Function::Sqrt, {x}, range, "^", lifted);
    if (exponent.number == Number::fraction(-1, 2))
      return apply(elab, Function::Rsqrt, {x}, range, "^", lifted);
  }
  return apply(elab, Function::Pow, {base, exponent}, range, "^", lifted);
}

Val echelon::frontend::arithmetic(Elaborator &elab, const ArithmeticExpr &e, bool lifted) {
  Val left = elab.eval(*e.first);
  for (const ArithmeticExpr::Rest &rest : e.rest) {
    Val right = elab.eval(*rest.operand);
    if (left.isPoison() || right.isPoison()) {
      left = Val::poison();
      continue;
    }
    if (left.kind == Val::Known && right.kind == Val::Known) {
      left = foldTwo(elab, rest.op, left, right, rest.operand->range);
      continue;
    }
    if (rest.op == '/' && right.kind == Val::Known && right.number.isZero()) {
      left = elab.poison(Code::E0223, rest.operand->range, "a value is divided by zero");
      continue;
    }
    Function f = rest.op == '+'   ? Function::Add
                 : rest.op == '-' ? Function::Sub
                 : rest.op == '*' ? Function::Mul
                                  : Function::Div;
    left = apply(elab, f, {left, right}, rest.opRange, std::string(1, rest.op), lifted);
  }
  return left;
}

Val echelon::frontend::power(Elaborator &elab, const PowerExpr &e, bool lifted) {
  Val base = elab.eval(*e.base), exponent = elab.eval(*e.exponent);
  if (base.isPoison() || exponent.isPoison())
    return Val::poison();
  return raise(elab, base, exponent, e.opRange, lifted);
}

Val echelon::frontend::compare(Elaborator &elab, const CompareExpr &e, bool lifted) {
  Val a = elab.eval(*e.left), b = elab.eval(*e.right);
  if (a.isPoison() || b.isPoison())
    return Val::poison();
  static const char *const spellings[] = {"==", "!=", "<", "<=", ">", ">="};
  if (a.kind == Val::Known && b.kind == Val::Known) {
    bool less = a.number < b.number, equal = a.number == b.number;
    switch (e.op) {
    case CompareExpr::Eq:
      return Val::truthOf(equal);
    case CompareExpr::Ne:
      return Val::truthOf(!equal);
    case CompareExpr::Lt:
      return Val::truthOf(less);
    case CompareExpr::Le:
      return Val::truthOf(less || equal);
    case CompareExpr::Gt:
      return Val::truthOf(!less && !equal);
    case CompareExpr::Ge:
      return Val::truthOf(!less);
    }
  }
  if (a.kind == Val::Truth && b.kind == Val::Truth && e.op <= CompareExpr::Ne)
    return Val::truthOf((a.truth == b.truth) == (e.op == CompareExpr::Eq));
  if (a.kind == Val::Word && b.kind == Val::Word && e.op <= CompareExpr::Ne)
    return Val::truthOf((a.word == b.word) == (e.op == CompareExpr::Eq));
  auto f = static_cast<Function>(static_cast<uint32_t>(Function::Eq) + static_cast<uint32_t>(e.op));
  return apply(elab, f, {a, b}, e.opRange, spellings[e.op], lifted);
}

Val echelon::frontend::logic(Elaborator &elab, const LogicExpr &e, bool lifted) {
  Val left;
  bool first = true;
  for (const ExprPtr &operand : e.operands) {
    Val right = elab.eval(*operand);
    if (first) {
      left = right;
      first = false;
      if (!left.isPoison() && !left.isTruth()) {
        elab.error(Code::E0207, operand->range,
                   std::string("`") + (e.isAnd ? "and" : "or") + "` takes truth values; a comparison makes them");
        left = Val::poison();
      }
      continue;
    }
    if (left.isPoison() || right.isPoison()) {
      left = Val::poison();
      continue;
    }
    if (left.kind == Val::Truth && right.kind == Val::Truth) {
      left = Val::truthOf(e.isAnd ? left.truth && right.truth : left.truth || right.truth);
      continue;
    }
    left = apply(elab, e.isAnd ? Function::And : Function::Or, {left, right}, operand->range, e.isAnd ? "and" : "or",
                 lifted);
  }
  return left;
}

Val builtin::outer(Elaborator &elab, const CallExpr &, const Args &args) {
  const Expr &inner = *args["e"];
  if (const auto *chain = dynCast<ArithmeticExpr>(&inner)) {
    if (chain->rest.size() > 1)
      return elab.poison(Code::E0205, inner.range,
                         "outer(…) pairs the two operands of one operation; give the others an outer(…) of their own");
    return arithmetic(elab, *chain, true);
  }
  if (const auto *c = dynCast<CompareExpr>(&inner))
    return compare(elab, *c, true);
  if (const auto *l = dynCast<LogicExpr>(&inner))
    return logic(elab, *l, true);
  if (const auto *p = dynCast<PowerExpr>(&inner))
    return power(elab, *p, true);
  static const std::set<std::string> calls{"max", "min", "mod", "where", "clamp"};
  if (const auto *c = dynCast<CallExpr>(&inner); c && c->callee.single() && calls.count(c->callee.parts[0].text))
    return elab.callLifted(*c);
  return elab.poison(Code::E0205, inner.range, "outer(…) takes one operation of two operands, as in outer(a + b)");
}
