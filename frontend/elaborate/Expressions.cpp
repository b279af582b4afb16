// Expressions: numbers, names, and which function each other form stands for.
#include "frontend/elaborate/Brackets.h"
#include "frontend/elaborate/Elaborator.h"
#include "frontend/elaborate/Elementwise.h"
#include "frontend/elaborate/Operators.h"
#include "llvm/Support/SaveAndRestore.h"

using namespace mlir;
using namespace echelon::frontend;

Val Elaborator::eval(const Expr &e) {
  if (exhausted(e.range))
    return Val::poison();
  ++depth;
  llvm::SaveAndRestore at(build.loc, scopes.location(e.range));
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
    v = apply(*this, ech::Function::Neg, {x}, e.range, "-", false);
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
    v = apply(*this, ech::Function::Not, {x}, e.range, "not", false);
    break;
  }
  case ExprKind::Arithmetic:
    v = arithmetic(*this, cast<ArithmeticExpr>(e), false);
    break;
  case ExprKind::Power:
    v = power(*this, cast<PowerExpr>(e), false);
    break;
  case ExprKind::Compare:
    v = compare(*this, cast<CompareExpr>(e), false);
    break;
  case ExprKind::Logic:
    v = logic(*this, cast<LogicExpr>(e), false);
    break;
  case ExprKind::Index:
    v = bracketed(*this, cast<IndexExpr>(e));
    break;
  }
  --depth;
  return v;
}

//===- names ------------------------------------------------------------------------------------------------------===//

std::string Elaborator::whatIsNamed(const Path &path) const {
  const std::string name = path.text();
  if (isBlock(*here().file, path) || (path.single() && builtIns().count(name)))
    return "; " + name + " is a " + (isBlock(*here().file, path) ? "block" : "function") +
           ", which is called: " + name + "(…)";
  if (path.single() && llvm::any_of(here().file->models, [&](const Model &m) { return m.name.text == name; }))
    return "; " + name + " is a model, and a value is taken here";
  if (path.single() && llvm::any_of(here().file->imports, [&](const Import &i) { return i.name == name; }))
    return "; " + name + " is an import, whose blocks are called as " + name + ".NAME(…)";
  return "";
}

Val Elaborator::evalPath(const PathExpr &e) {
  std::string name = e.path.text();
  if (e.path.single()) {
    bool found;
    Val v = loops.look(name, e.range, &found);
    if (found)
      return v;
    if (name == "training")
      return Val::truthOf(training);
    if (name == "same") {
      v.kind = Val::Word;
      v.word = name;
      return v;
    }
    auto gone = here().gone.find(name);
    if (gone != here().gone.end()) {
      error(Code::E0131, e.range,
            name + " is assigned inside a repeat and ends with it; assign it before, too, and it is carried out")
          .note(gone->second, "the repeat is here");
      return Val::poison();
    }
    if (scopes.findAxis(name))
      return poison(Code::E0209, e.range,
                    name + " is an axis, and a value is taken here; index(" + name +
                        ") is the position along it, size(" + name + ") its size");
  }
  std::vector<std::string> all{"training", "true", "false"};
  for (const auto &entry : here().values)
    all.push_back(entry.first);
  std::string hint = didYouMean(name, all);
  if (hint.empty()) {
    all.clear();
    for (const auto &entry : here().axes)
      all.push_back(entry.first);
    if (std::string axis = nearest(name, all); !axis.empty())
      hint = "; there is an axis " + axis;
  }
  if (llvm::StringRef(name).equals_insensitive("inf") || llvm::StringRef(name).equals_insensitive("infinity"))
    hint = "; numbers are finite, and what a mask forbids is left out by softmax(…, where = MASK), as by max, mean and "
           "attention(…, mask = MASK)";
  if (std::string what = whatIsNamed(e.path); !what.empty())
    return poison(Code::E0110, e.range, "no value is called " + quoted(name) + what);
  return poison(Code::E0110, e.range, "nothing is called " + quoted(name) + hint);
}

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
  v.depth = static_cast<unsigned>(loops.depth());
  if (bounds && ech::tensor(value).getElement().isInteger(32))
    v.range = bounds;
  return v;
}
