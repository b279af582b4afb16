// Names of axes, and lists of them.
#include "frontend/elaborate/Elaborator.h"

using namespace mlir;
using namespace echelon::frontend;

const AxisInfo *Elaborator::findAxis(const std::string &name) const {
  auto it = scope->axes.find(name);
  return it == scope->axes.end() ? nullptr : it->second;
}

const AxisInfo *Elaborator::declared(StringAttr axis) const {
  auto it = llvm::find_if(axisStore, [&](const AxisInfo &info) { return info.name == axis; });
  return it == axisStore.end() ? nullptr : &*it;
}

const AxisInfo *Elaborator::axisOf(const Ident &name) {
  auto it = scope->axes.find(name.text);
  if (it != scope->axes.end())
    return it->second;
  if (scope->values.count(name.text)) {
    error(Code::E0111, name.range, name.text + " is a value, and an axis is taken here");
    return nullptr;
  }
  std::vector<std::string> all;
  for (const auto &[known, info] : scope->axes)
    if (info)
      all.push_back(known);
  scope->axes[name.text] = nullptr; // told once
  std::string hint = didYouMean(name.text, all);
  error(Code::E0111, name.range,
        "no axis is called " + quoted(name.text) +
            (hint.empty() ? "; declare it before, as in axis " + name.text + " = 8" : hint));
  return nullptr;
}

const AxisInfo *Elaborator::axisOf(const Expr &e, const char *what) {
  const auto *word = dynCast<PathExpr>(&e);
  if (!word || !word->path.single()) {
    std::string mend = "write its name";
    if (const auto *number = dynCast<NumberExpr>(&e)) {
      std::vector<std::string> ofThatSize;
      for (const auto &[name, axis] : scope->axes)
        if (axis && number->isInteger && axis->size == number->integer && !axis->countsSamples())
          ofThatSize.push_back(name);
      mend = ofThatSize.empty() ? "declare axis NAME = " + number->spelling + ", and write NAME"
                                : "write " + listed(ofThatSize, "or") + ", which has that size";
    }
    error(Code::E0209, e.range, std::string(what) + " is an axis: " + mend);
    return nullptr;
  }
  return axisOf(word->path.parts[0]);
}

std::optional<SmallVector<const AxisInfo *>> Elaborator::axisList(const Expr &e, const char *what) {
  SmallVector<const AxisInfo *> list;
  bool good = true;
  auto add = [&](const Expr &one) {
    const AxisInfo *axis = axisOf(one, what);
    if (axis && llvm::is_contained(list, axis)) {
      error(Code::E0203, one.range, "axis " + written(axis->name) + " appears twice in this list");
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

std::optional<SmallVector<StringAttr>> Elaborator::axes(const Expr *e, ArrayRef<ech::Axis> all, const char *what) {
  SmallVector<StringAttr> names;
  if (!e) {
    for (const ech::Axis &axis : all)
      names.push_back(axis.name);
    return names;
  }
  const auto *call = dynCast<CallExpr>(e);
  if (call && call->callee.single() && call->callee.parts[0].text == "except") {
    SmallVector<StringAttr> left;
    for (const Argument &a : call->arguments) {
      const AxisInfo *axis = a.value && !a.name ? axisOf(*a.value, "except") : nullptr;
      if (!axis)
        return std::nullopt;
      if (llvm::none_of(all, [&](const ech::Axis &b) { return b.name == axis->name; })) {
        error(Code::E0206, a.range, "the value has no axis " + written(axis->name) + " that could be left out");
        return std::nullopt;
      }
      left.push_back(axis->name);
    }
    for (const ech::Axis &axis : all)
      if (!llvm::is_contained(left, axis.name))
        names.push_back(axis.name);
    return names;
  }
  auto list = axisList(*e, what);
  if (!list)
    return std::nullopt;
  for (const AxisInfo *axis : *list)
    names.push_back(axis->name);
  return names;
}

std::string Elaborator::written(StringAttr axis) const {
  // Inside the library the user knows the axis by the name outside.
  const Scope *s = scope;
  while (s && s->isLibrary)
    s = s->caller;
  if (s)
    for (const auto &[name, info] : s->axes)
      if (info && info->name == axis)
        return name;
  return axis.str();
}
