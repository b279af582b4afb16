// Expressions: names, operators, and what is known when compiling.
#include "frontend/elaborate/Elaborator.h"
#include <cmath>

using namespace mlir;
using namespace echelon::frontend;
namespace ech = echelon::ech;

Val Elaborator::eval(const Expr &e) {
  if (exhausted(e.range))
    return Val::poison();
  ++depth;
  At at(*this, e.range);
  Val v;
  switch (e.kind) {
  case ExprKind::Number: {
    const auto &n = cast<NumberExpr>(e);
    v = !n.known ? Val::poison()
                 : Val::known(n.isInteger ? Number::whole(n.integer) : Number::spelled(n.spelling, n.value));
    break;
  }
  case ExprKind::Bool:
    v = Val::truthOf(cast<BoolExpr>(e).value);
    break;
  case ExprKind::Quantity: {
    const Quantity &q = cast<QuantityExpr>(e).quantity;
    v = !q.known ? Val::poison()
                 : poison(Code::E0017, e.range,
                          "a model computes with plain numbers; write " + Number::real(q.value).text());
    break;
  }
  case ExprKind::String:
    v = poison(Code::E0209, e.range, "a text has no meaning in a model");
    break;
  case ExprKind::Tuple:
    v = poison(Code::E0209, e.range, "a list stands only for axes and for numbers of a window, as in `over = (a, b)`");
    break;
  case ExprKind::Path:
    v = evalPath(cast<PathExpr>(e));
    break;
  case ExprKind::Call:
    v = call(cast<CallExpr>(e));
    break;
  case ExprKind::Negate: {
    Val x = eval(*cast<NegateExpr>(e).operand);
    if (x.isPoison())
      break;
    if (x.kind == Val::Known) {
      v = Val::known(-x.number);
      break;
    }
    v = apply(ech::Function::Neg, {x}, e.range, "-", false);
    break;
  }
  case ExprKind::Not: {
    Val x = eval(*cast<NotExpr>(e).operand);
    if (x.isPoison())
      break;
    if (x.kind == Val::Truth) {
      v = Val::truthOf(!x.truth);
      break;
    }
    v = apply(ech::Function::Not, {x}, e.range, "not", false);
    break;
  }
  case ExprKind::Arithmetic:
    v = arithmetic(cast<ArithmeticExpr>(e), false);
    break;
  case ExprKind::Power:
    v = power(cast<PowerExpr>(e), false);
    break;
  case ExprKind::Compare:
    v = compare(cast<CompareExpr>(e), false);
    break;
  case ExprKind::Logic:
    v = logic(cast<LogicExpr>(e), false);
    break;
  case ExprKind::Index:
    v = index(cast<IndexExpr>(e));
    break;
  }
  --depth;
  return v;
}

//===- names ------------------------------------------------------------------------------------------------------===//

Val Elaborator::look(const std::string &name, SourceRange range, bool *found) {
  auto it = scope->values.find(name);
  if (found)
    *found = it != scope->values.end();
  if (it == scope->values.end())
    return Val::poison();
  for (Loop &loop : loops)
    if (loop.scope == scope)
      for (Carried &c : loop.carried)
        if (c.name == name)
          c.read = true;
  Val v = it->second;
  if (v.isTensor() && v.depth < loops.size()) {
    v.value = inside(v, range);
    v.depth = static_cast<unsigned>(loops.size());
  }
  return v;
}

Val Elaborator::evalPath(const PathExpr &e) {
  std::string name = e.path.text();
  if (e.path.single()) {
    bool found;
    Val v = look(name, e.range, &found);
    if (found)
      return v;
    if (name == "training")
      return Val::truthOf(training);
    if (name == "same") {
      v.kind = Val::Word;
      v.word = name;
      return v;
    }
    auto gone = scope->gone.find(name);
    if (gone != scope->gone.end()) {
      error(Code::E0131, e.range,
            name + " is assigned inside a repeat and ends with it; assign it before, too, and it is carried out")
          .note(gone->second, "the repeat is here");
      return Val::poison();
    }
    if (findAxis(name))
      return poison(Code::E0209, e.range,
                    name + " is an axis, and a value is taken here; index(" + name +
                        ") is the position along it, size(" + name + ") its size");
  }
  std::vector<std::string> all{"training", "true", "false"};
  for (const auto &entry : scope->values)
    all.push_back(entry.first);
  std::string hint = didYouMean(name, all);
  if (hint.empty()) {
    all.clear();
    for (const auto &entry : scope->axes)
      all.push_back(entry.first);
    if (std::string axis = nearest(name, all); !axis.empty())
      hint = "; there is an axis " + axis;
  }
  if (llvm::StringRef(name).equals_insensitive("inf") || llvm::StringRef(name).equals_insensitive("infinity"))
    hint = "; numbers are finite, and what a mask forbids is left out by softmax(…, where = MASK), as by max, mean and "
           "attention(…, mask = MASK)";
  return poison(Code::E0110, e.range, "nothing is called " + quoted(name) + hint);
}

//===- kinds of values --------------------------------------------------------------------------------------------===//

Val Elaborator::tensor(Value value, bool made, SourceRange range, std::optional<Interval> bounds) {
  double count = 1;
  for (const ech::Axis &axis : ech::tensor(value).getAxes())
    count *= static_cast<double>(axis.size);
  if (count > 9e15)
    return poison(Code::E0202, range,
                  "this value has more than 2^53 elements: its axes are " + ech::describe(ech::tensor(value)));
  Val v;
  v.kind = Val::Tensor;
  v.value = value;
  v.made = made;
  v.depth = static_cast<unsigned>(loops.size());
  if (bounds && ech::tensor(value).getElement().isInteger(32))
    v.range = bounds;
  return v;
}

void Elaborator::checkElement(const Number &n, SourceRange range) {
  const double x = n.value();
  const bool isSmall = x != 0 && float(x) == 0;
  if (!shared.options.f64 && (isSmall || std::isinf(float(x))))
    error(Code::E0704, range,
          n.text() + (isSmall ? " is 0 in fp32, as is all below 7.006e-46"
                              : " is beyond fp32, which holds up to 3.402823e38"));
}

Value Elaborator::constantLike(const Val &v, bool integer, SourceRange range) {
  if (v.kind == Val::Truth)
    return build.constant(v.truth, build.type({}, builder.getI1Type()));
  if (auto n = integer ? v.number.integer() : std::nullopt; n && *n == static_cast<int32_t>(*n))
    return build.constant(v.number.value(), build.type({}, builder.getI32Type()));
  checkElement(v.number, range);
  return build.constant(v.number.value());
}

std::optional<Val> Elaborator::anyTensor(const Val &v, SourceRange range) {
  if (v.isPoison())
    return std::nullopt;
  if (v.kind == Val::Word) {
    error(Code::E0110, range, "nothing is called " + quoted(v.word));
    return std::nullopt;
  }
  if (v.isTensor())
    return v;
  return tensor(constantLike(v, true, range), true, range,
                v.kind == Val::Known && v.number.integer()
                    ? std::optional(Interval{*v.number.integer(), *v.number.integer()})
                    : std::nullopt);
}

std::optional<Val> Elaborator::realTensor(const Val &v, SourceRange range, const char *what) {
  if (v.kind == Val::Known)
    return tensor(constantLike(v, false, range), true, range);
  auto t = anyTensor(v, range);
  if (!t)
    return std::nullopt;
  if (t->type().getElement().isInteger(1)) {
    error(Code::E0207, range,
          std::string(what) + " takes numbers, and this is a truth value; where(c, 1, 0) makes numbers of it");
    return std::nullopt;
  }
  bool made = t->made;
  return tensor(build.toReal(t->value), made, range);
}

std::optional<Val> Elaborator::realTensor(const Expr &e, const char *what) {
  return realTensor(eval(e), e.range, what);
}

std::optional<Number> Elaborator::known(const Expr *e, const char *what) {
  if (!e)
    return std::nullopt;
  Val v = eval(*e);
  if (v.isPoison())
    return std::nullopt;
  if (v.kind != Val::Known) {
    error(Code::E0208, e->range,
          std::string(what) + " is a number known when compiling" +
              (v.isTensor() ? ", and this is a value of the step" : ""));
    return std::nullopt;
  }
  return v.number;
}

std::optional<int64_t> Elaborator::whole(const Expr &e, const char *what, int64_t low, int64_t high) {
  auto n = known(&e, what);
  if (!n)
    return std::nullopt;
  auto i = n->integer();
  if (!i) {
    error(Code::E0201, e.range, std::string(what) + " is a whole number, and this is " + n->text());
    return std::nullopt;
  }
  if (*i < low || *i > high) {
    error(Code::E0218, e.range,
          std::string(what) + " is " + std::to_string(*i) + "; it must be " +
              (*i < low ? "at least " + std::to_string(low) : "at most " + std::to_string(high)));
    return std::nullopt;
  }
  return i;
}

std::optional<int64_t> Elaborator::size(const Expr &e, const std::string &what) {
  bool saved = std::exchange(inSize, true);
  Val v = eval(e);
  inSize = saved;
  if (v.isPoison())
    return std::nullopt;
  if (v.kind != Val::Known) {
    error(Code::E0208, e.range, "the size of " + what + " is a number known when compiling");
    return std::nullopt;
  }
  auto n = v.number.integer();
  if (!n && (!v.number.exact() || v.number.value() > 1e18)) {
    error(Code::E0202, e.range,
          "the size of " + what + " is " + v.number.text() + ", which is no exact whole number; ceil(…) rounds up");
    return std::nullopt;
  }
  if (!n) {
    error(Code::E0201, e.range,
          "the size of " + what + " is " + v.number.text() +
              ", not a whole number; choose numbers that divide, or round up by ceil(…)");
    return std::nullopt;
  }
  if (*n < 1 || *n >= (int64_t(1) << 31)) {
    error(Code::E0202, e.range,
          "the size of " + what + " is " + std::to_string(*n) + "; sizes lie between 1 and 2^31 - 1");
    return std::nullopt;
  }
  return n;
}

std::optional<bool> Elaborator::flag(const Expr *e, bool otherwise, const char *what) {
  if (!e)
    return otherwise;
  Val v = eval(*e);
  if (v.isPoison())
    return std::nullopt;
  if (v.kind != Val::Truth) {
    error(Code::E0208, e->range, std::string(what) + " is `true` or `false`, known when compiling");
    return std::nullopt;
  }
  return v.truth;
}

//===- operators --------------------------------------------------------------------------------------------------===//

Val Elaborator::foldTwo(char op, const Val &a, const Val &b, SourceRange range) {
  if (op == '/' && b.number.isZero())
    return poison(Code::E0223, range, "a number is divided by zero");
  return finite(op == '+'   ? a.number + b.number
                : op == '-' ? a.number - b.number
                : op == '*' ? a.number * b.number
                            : a.number / b.number,
                range);
}

Val Elaborator::finite(const Number &n, SourceRange range) {
  if (!std::isfinite(n.value()))
    return poison(Code::E0223, range, "what is worked out here is " + n.text() + ", no number");
  return Val::known(n);
}

Val Elaborator::arithmetic(const ArithmeticExpr &e, bool lifted) {
  Val left = eval(*e.first);
  for (const ArithmeticExpr::Rest &rest : e.rest) {
    Val right = eval(*rest.operand);
    if (left.isPoison() || right.isPoison()) {
      left = Val::poison();
      continue;
    }
    if (left.kind == Val::Known && right.kind == Val::Known) {
      left = foldTwo(rest.op, left, right, rest.operand->range);
      continue;
    }
    if (rest.op == '/' && right.kind == Val::Known && right.number.isZero()) {
      left = poison(Code::E0223, rest.operand->range, "a value is divided by zero");
      continue;
    }
    ech::Function f = rest.op == '+'   ? ech::Function::Add
                      : rest.op == '-' ? ech::Function::Sub
                      : rest.op == '*' ? ech::Function::Mul
                                       : ech::Function::Div;
    left = apply(f, {left, right}, rest.opRange, std::string(1, rest.op), lifted);
  }
  return left;
}

Val Elaborator::power(const PowerExpr &e, bool lifted) {
  Val base = eval(*e.base), exponent = eval(*e.exponent);
  if (base.isPoison() || exponent.isPoison())
    return Val::poison();
  return raise(base, exponent, e.opRange, lifted);
}

Val Elaborator::compare(const CompareExpr &e, bool lifted) {
  Val a = eval(*e.left), b = eval(*e.right);
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
  auto f = static_cast<ech::Function>(static_cast<uint32_t>(ech::Function::Eq) + static_cast<uint32_t>(e.op));
  return apply(f, {a, b}, e.opRange, spellings[e.op], lifted);
}

Val Elaborator::logic(const LogicExpr &e, bool lifted) {
  Val left;
  bool first = true;
  for (const ExprPtr &operand : e.operands) {
    Val right = eval(*operand);
    if (first) {
      left = right;
      first = false;
      if (!left.isPoison() && left.kind != Val::Truth && !(left.isTensor() && left.type().getElement().isInteger(1))) {
        error(Code::E0207, operand->range,
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
    left = apply(e.isAnd ? ech::Function::And : ech::Function::Or, {left, right}, operand->range,
                 e.isAnd ? "and" : "or", lifted);
  }
  return left;
}
