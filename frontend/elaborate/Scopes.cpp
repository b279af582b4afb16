#include "frontend/elaborate/Scopes.h"

using namespace mlir;
using namespace echelon::frontend;
namespace ech = echelon::ech;

SourceRange Scopes::usersPlace(SourceRange range) const {
  for (const Scope *s = innermost; s && s->isLibrary; s = s->caller)
    range = s->callRange;
  return range;
}

Location Scopes::location(SourceRange range) const {
  auto place = [&](SourceRange at) { return FileLineColLoc::get(&context, sources.name(at.file), at.line, at.column); };
  const SourceRange users = usersPlace(range);
  if (!users.valid())
    return UnknownLoc::get(&context);
  if (!range.valid() || users.file == range.file)
    return place(users);
  // The line of the library goes along as metadata: whoever looks for a place finds the user's.
  return FusedLoc::get(&context, {place(users)}, place(range));
}

echelon::frontend::Diagnostic &Scopes::error(Code code, SourceRange range, std::string message) {
  const Scope *s = innermost;
  SourceRange inner = range;
  std::string where;
  while (s && s->isLibrary) {
    where = "inside " + s->block->name.text;
    // Where the library's text names an argument, the user's own is in the call.
    const std::string named(sources.text(range));
    auto given = s->given.find(named);
    range = given == s->given.end() ? s->callRange : given->second;
    if (given != s->given.end())
      where += ", as its " + named;
    s = s->caller;
  }
  echelon::frontend::Diagnostic &d = diagnostics.error(code, range, std::move(message));
  if (!where.empty())
    d.note(inner, where);
  for (int notes = 0; s && s->caller && notes < 3; ++notes, s = s->caller)
    if (s->callRange.offset != range.offset || s->callRange.file != range.file)
      d.note(s->callRange, s->block->name.text + " is called here");
  return d;
}

echelon::frontend::Diagnostic &Scopes::warning(Code code, SourceRange range, std::string message) {
  return diagnostics.warning(code, usersPlace(range), std::move(message));
}

std::vector<std::pair<SourceRange, std::string>> Scopes::callsAround(size_t most) const {
  std::vector<std::pair<SourceRange, std::string>> calls;
  for (const Scope *s = innermost; s && s->caller && calls.size() < most; s = s->caller)
    if (!s->isLibrary)
      calls.emplace_back(s->callRange, s->block->name.text + " is called here");
  return calls;
}

//===- names ------------------------------------------------------------------------------------------------------===//

const AxisInfo *Scopes::findAxis(const std::string &name) const {
  auto it = innermost->axes.find(name);
  return it == innermost->axes.end() ? nullptr : it->second;
}

const AxisInfo *Scopes::axis(const Ident &name) {
  auto it = innermost->axes.find(name.text);
  if (it != innermost->axes.end())
    return it->second;
  if (innermost->values.count(name.text)) {
    error(Code::E0111, name.range, name.text + " is a value, and an axis is taken here");
    return nullptr;
  }
  std::vector<std::string> all;
  for (const auto &[known, info] : innermost->axes)
    if (info)
      all.push_back(known);
  innermost->axes[name.text] = nullptr; // reported once
  std::string hint = didYouMean(name.text, all);
  error(Code::E0111, name.range,
        "no axis is called " + quoted(name.text) +
            (hint.empty() ? "; declare it before, as in axis " + name.text + " = 8" : hint));
  return nullptr;
}

const std::string *Scopes::nameOf(StringAttr axis) const {
  // Inside the library the user knows the axis by the name outside.
  const Scope *s = innermost;
  while (s && s->isLibrary)
    s = s->caller;
  if (s)
    for (const auto &[name, info] : s->axes)
      if (info && info->name == axis)
        return &name;
  return nullptr;
}

std::string Scopes::written(StringAttr axis) const {
  const std::string *name = nameOf(axis);
  return name ? *name : axis.str();
}
