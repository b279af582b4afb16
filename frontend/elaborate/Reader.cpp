#include "frontend/elaborate/Reader.h"
#include "frontend/elaborate/Constants.h"
#include "frontend/elaborate/Elaborator.h"

using namespace mlir;
using namespace echelon::frontend;
namespace ech = echelon::ech;

Value Reader::constant(const Val &v, bool integer, SourceRange range) {
  return constantLike(elab.scopes, elab.build, v, integer, range);
}

std::optional<Val> Reader::anyTensor(const Val &v, SourceRange range) {
  if (v.isPoison())
    return std::nullopt;
  if (v.kind == Val::Word) {
    elab.error(Code::E0110, range, "nothing is called " + quoted(v.word));
    return std::nullopt;
  }
  if (v.isTensor())
    return v;
  return elab.tensor(constant(v, true, range), true, range,
                     v.kind == Val::Known && v.number.integer()
                         ? std::optional(Interval{*v.number.integer(), *v.number.integer()})
                         : std::nullopt);
}

std::optional<Val> Reader::realTensor(const Val &v, SourceRange range, const char *what) {
  if (v.kind == Val::Known)
    return elab.tensor(constant(v, false, range), true, range);
  auto t = anyTensor(v, range);
  if (!t)
    return std::nullopt;
  if (t->isTruth()) {
    elab.error(Code::E0207, range,
               std::string(what) + " takes numbers, and this is a truth value; where(c, 1, 0) makes numbers of it");
    return std::nullopt;
  }
  bool made = t->made;
  return elab.tensor(elab.build.toReal(t->value), made, range);
}

std::optional<Val> Reader::realTensor(const Expr &e, const char *what) {
  return realTensor(elab.eval(e), e.range, what);
}

std::optional<Number> Reader::known(const Expr *e, const char *what) {
  if (!e)
    return std::nullopt;
  Val v = elab.eval(*e);
  if (v.isPoison())
    return std::nullopt;
  if (v.kind != Val::Known) {
    elab.error(Code::E0208, e->range,
               std::string(what) + " is a number known when compiling" +
                   (v.isTensor() ? ", and this is a value of the step" : ""));
    return std::nullopt;
  }
  return v.number;
}

std::optional<int64_t> Reader::whole(const Expr &e, const char *what, int64_t low, int64_t high) {
  auto n = known(&e, what);
  if (!n)
    return std::nullopt;
  auto i = n->integer();
  if (!i) {
    elab.error(Code::E0201, e.range, std::string(what) + " is a whole number, and this is " + n->text());
    return std::nullopt;
  }
  if (*i < low || *i > high) {
    elab.error(Code::E0218, e.range,
               std::string(what) + " is " + std::to_string(*i) + "; it must be " +
                   (*i < low ? "at least " + std::to_string(low) : "at most " + std::to_string(high)));
    return std::nullopt;
  }
  return i;
}

std::optional<int64_t> Reader::size(const Expr &e, const std::string &what) {
  bool saved = std::exchange(inSize, true);
  Val v = elab.eval(e);
  inSize = saved;
  if (v.isPoison())
    return std::nullopt;
  if (v.kind != Val::Known) {
    elab.error(Code::E0208, e.range, "the size of " + what + " is a number known when compiling");
    return std::nullopt;
  }
  auto n = v.number.integer();
  if (!n && (!v.number.exact() || v.number.value() > 1e18)) {
    elab.error(Code::E0202, e.range,
               "the size of " + what + " is " + v.number.text() +
                   ", which is no exact whole number; ceil(…) rounds up");
    return std::nullopt;
  }
  if (!n) {
    elab.error(Code::E0201, e.range,
               "the size of " + what + " is " + v.number.text() +
                   ", not a whole number; choose numbers that divide, or round up by ceil(…)");
    return std::nullopt;
  }
  if (*n < 1 || *n >= (int64_t(1) << 31)) {
    elab.error(Code::E0202, e.range,
               "the size of " + what + " is " + std::to_string(*n) + "; sizes lie between 1 and 2^31 - 1");
    return std::nullopt;
  }
  return n;
}

std::optional<bool> Reader::flag(const Expr *e, bool otherwise, const char *what) {
  if (!e)
    return otherwise;
  Val v = elab.eval(*e);
  if (v.isPoison())
    return std::nullopt;
  if (v.kind != Val::Truth) {
    elab.error(Code::E0208, e->range, std::string(what) + " is `true` or `false`, known when compiling");
    return std::nullopt;
  }
  return v.truth;
}

std::optional<SmallVector<int64_t>> Reader::numbers(const Expr *e, size_t count, int64_t otherwise, int64_t low,
                                                    const char *what) {
  constexpr int64_t high = 1 << 20;
  if (!e)
    return SmallVector<int64_t>(count, otherwise);
  const auto *tuple = dynCast<TupleExpr>(e);
  if (!tuple) {
    auto n = whole(*e, what, low, high);
    if (!n)
      return std::nullopt;
    return SmallVector<int64_t>(count, *n);
  }
  if (tuple->elements.size() != count) {
    elab.error(Code::E0215, e->range,
               std::string(what) + " has " + std::to_string(tuple->elements.size()) + " numbers for a window over " +
                   std::to_string(count) + (count == 1 ? " axis" : " axes"));
    return std::nullopt;
  }
  SmallVector<int64_t> list;
  for (const ExprPtr &element : tuple->elements) {
    auto n = whole(*element, what, low, high);
    if (!n)
      return std::nullopt;
    list.push_back(*n);
  }
  return list;
}

const AxisInfo *Reader::axis(const Expr &e, const char *what) {
  const auto *word = dynCast<PathExpr>(&e);
  if (!word || !word->path.single()) {
    std::string mend = "write its name";
    if (const auto *number = dynCast<NumberExpr>(&e)) {
      std::vector<std::string> ofThatSize;
      for (const auto &[name, axis] : elab.scopes.here().axes)
        if (axis && number->isInteger && axis->size == number->integer && !axis->countsSamples())
          ofThatSize.push_back(name);
      mend = ofThatSize.empty() ? "declare axis NAME = " + number->spelling + ", and write NAME"
                                : "write " + listed(ofThatSize, "or") + ", which has that size";
    }
    elab.error(Code::E0209, e.range, std::string(what) + " is an axis: " + mend);
    return nullptr;
  }
  return elab.scopes.axis(word->path.parts[0]);
}

std::optional<SmallVector<const AxisInfo *>> Reader::axisList(const Expr &e, const char *what) {
  SmallVector<const AxisInfo *> list;
  bool good = true;
  auto add = [&](const Expr &one) {
    const AxisInfo *axis = this->axis(one, what);
    if (axis && llvm::is_contained(list, axis)) {
      elab.error(Code::E0203, one.range, "axis " + elab.scopes.written(axis->name) + " appears twice in this list");
      axis = nullptr;
    }
    good &= axis != nullptr;
    list.push_back(axis);
  };
  if (const auto *tuple = dynCast<TupleExpr>(&e))
    for (const ExprPtr &element : tuple->elements)
      add(*element);
  else
    add(e);
  if (!good)
    return std::nullopt;
  return list;
}

std::optional<SmallVector<StringAttr>> Reader::allBut(const CallExpr &call, ArrayRef<ech::Axis> all) {
  auto wrong = [&](Code code, SourceRange range, std::string message) {
    elab.error(code, range, std::move(message));
    return std::nullopt;
  };
  if (call.as || call.with)
    return wrong(Code::E0124, call.as ? call.as->range : call.with->range,
                 "except(…) is a list of axes; `as` and `with` name the parameters of a block's call");
  if (call.arguments.empty())
    return wrong(Code::E0119, call.range, "except needs the axes that are left out, as in except(a, b)");
  SmallVector<StringAttr> left;
  for (const Argument &a : call.arguments) {
    if (a.name)
      return wrong(Code::E0117, a.name->range,
                   "except has no argument " + quoted(a.name->text) + "; it takes axes, as in except(a, b)");
    const AxisInfo *axis = a.value ? this->axis(*a.value, "what except leaves out") : nullptr;
    if (!axis)
      return std::nullopt;
    if (llvm::none_of(all, [&](const ech::Axis &b) { return b.name == axis->name; }))
      return wrong(Code::E0206, a.range,
                   "the value has no axis " + elab.scopes.written(axis->name) + " that could be left out");
    if (llvm::is_contained(left, axis->name))
      return wrong(Code::E0203, a.range, "axis " + elab.scopes.written(axis->name) + " appears twice in this list");
    left.push_back(axis->name);
  }
  SmallVector<StringAttr> names;
  for (const ech::Axis &axis : all)
    if (!llvm::is_contained(left, axis.name))
      names.push_back(axis.name);
  return names;
}

std::optional<SmallVector<StringAttr>> Reader::axes(const Expr *e, ArrayRef<ech::Axis> all, const char *what) {
  SmallVector<StringAttr> names;
  if (!e) {
    for (const ech::Axis &axis : all)
      names.push_back(axis.name);
    return names;
  }
  const auto *call = dynCast<CallExpr>(e);
  if (call && call->callee.single() && call->callee.parts[0].text == "except")
    return allBut(*call, all);
  auto list = axisList(*e, what);
  if (!list)
    return std::nullopt;
  for (const AxisInfo *axis : *list)
    names.push_back(axis->name);
  return names;
}
