// Calls: arguments bound to names, blocks inlined with their parameters under a path of their own.
#include "frontend/ForeignWords.h"
#include "frontend/Parse.h"
#include "frontend/elaborate/Elaborator.h"
#include "frontend/elaborate/Walk.h"
#include "llvm/Support/SaveAndRestore.h"

using namespace mlir;
using namespace echelon::frontend;

/// A call as it is written, for a note: "nn.linear(x, from, to, bias = …)".
static std::string formOfCall(const std::string &callee, const std::vector<std::string> &names,
                              const std::set<std::string> &required) {
  std::string form = callee + "(";
  for (const std::string &name : names) {
    bool isOptional = !required.count(name), axes = name == "over" || name == "window";
    form += (name == names.front() ? "" : ", ") + name + (axes ? " = AXES" : isOptional ? " = …" : "");
  }
  return "the form is: " + form + ")";
}

std::optional<Args> Elaborator::bind(const std::vector<Argument> &arguments, const std::vector<std::string> &names,
                                     const std::set<std::string> &required, const std::string &callee,
                                     SourceRange range, const std::set<std::string> &takenAsAxes, bool isVariadic) {
  Args args;
  bool good = true;
  size_t place = 0;
  for (const Argument &a : arguments) {
    if (a.weight || a.high) {
      error(Code::E0019, a.range, "a range or a share has no meaning among the arguments of " + callee);
      good = false;
      continue;
    }
    std::string name;
    if (a.name) {
      name = a.name->text;
      if (isVariadic ? name != names.back() : !llvm::is_contained(names, name)) {
        error(Code::E0117, a.name->range,
              callee + " has no argument " + quoted(name) +
                  (isVariadic                     ? "; besides values, which have no names, it takes " + names.back()
                   : names.empty()                ? ""
                   : nearest(name, names).empty() ? "; its arguments are " + listed(names)
                                                  : didYouMean(name, names)));
        good = false;
        continue;
      }
    } else if (isVariadic) {
      continue;
    } else if (place < names.size()) {
      name = names[place++];
    } else {
      error(Code::E0120, a.range,
            callee + " takes " +
                (names.empty() ? "no arguments"
                               : "at most " + std::to_string(names.size()) +
                                     (names.size() == 1 ? " argument" : " arguments") + ": " + listed(names)));
      good = false;
      continue;
    }
    auto [it, isNew] = args.given.emplace(name, &a);
    if (!isNew) {
      error(Code::E0118, a.range, "argument " + name + " of " + callee + " is given twice")
          .note(it->second->range, "the other is here");
      good = false;
    }
  }
  std::vector<std::string> missing;
  for (const std::string &name : names)
    if (required.count(name) && !args.given.count(name) && !(isVariadic && name != names.back()))
      missing.push_back(name);
  if (!missing.empty()) {
    std::string hint;
    if (missing.size() == 1 && takenAsAxes.count(missing[0]))
      hint = scopes.findAxis(missing[0]) ? ", an axis; write " + missing[0] + ", the axis of that name" : ", an axis";
    auto &d =
        error(Code::E0119, range,
              callee + " needs " + (missing.size() == 1 ? "the argument " : "the arguments ") + listed(missing) + hint);
    if (callee.compare(0, 6, "model ") != 0)
      d.note(formOfCall(callee, names, required));
    good = false;
  }
  if (!good)
    return std::nullopt;
  return args;
}

bool Elaborator::isBlock(const File &file, const Path &path) const {
  return shared.program.findBlock(file, path) != nullptr;
}

bool Elaborator::isCallable(const Ident &name) const {
  const Path bare{{name}, name.range};
  const bool isBuiltIn = builtIns().count(name.text) != 0;
  const Block *block = shared.program.findBlock(*here().file, bare);
  if (!block)
    return isBuiltIn;
  return shared.program.ambiguity(*here().file, bare, &File::blocks).empty() &&
         (!isBuiltIn || shared.program.file(block->name.range.file) == here().file);
}

void Elaborator::evaluateArguments(const CallExpr &e) {
  for (const Argument &a : e.arguments)
    if (a.value &&
        (a.value->kind == ExprKind::Call || a.value->kind == ExprKind::Arithmetic || a.value->kind == ExprKind::Index))
      eval(*a.value);
}

/// What a name is that is called and cannot be; empty where it is nothing.
static std::string whatIsCalled(const Scope &scope, const Path &callee) {
  const std::string name = callee.text();
  if (auto axis = scope.axes.find(name); axis != scope.axes.end())
    return "; " + name + " is an axis, and index(" + name + ") is the position along it";
  if (scope.values.count(name))
    return "; " + name + " is a value, and a place in it is in brackets: " + name + "[AXIS = …]";
  return "";
}

/// What may have been meant by a callee that there is not, among the blocks and functions that there are.
static std::string otherCall(const Path &callee, const std::vector<std::string> &known, const File &file,
                             bool isBuiltIn) {
  std::string text = callee.text(), last = callee.parts.back().text;
  if (std::string instead = foreignWord(text); !instead.empty())
    return instead;
  if (!callee.single() && llvm::is_contained(known, last))
    return "; write " + last + "(…)" + (isBuiltIn ? ", which is built in" : "");
  bool ofLibrary = callee.parts.size() == 2 && callee.parts[0].text == "nn";
  if (ofLibrary && llvm::none_of(file.imports, [](const Import &i) { return i.name == "nn"; }))
    return "; import the library at the top of the file: import nn";
  if (std::string near = didYouMean(text, known); !near.empty() || !ofLibrary)
    return near;
  std::vector<std::string> blocks;
  for (const std::string &name : known)
    if (name.compare(0, 3, "nn.") == 0)
      blocks.push_back(name.substr(3));
  return "; nn has " + listed(blocks);
}

Val Elaborator::call(const CallExpr &e) {
  if (exhausted(e.range))
    return Val::poison();
  if (const std::string twice = shared.program.ambiguity(*here().file, e.callee, &File::blocks); !twice.empty())
    return poison(Code::E0103, e.callee.range, twice);
  const Block *block = shared.program.findBlock(*here().file, e.callee);
  auto it = e.callee.single() ? builtIns().find(e.callee.parts[0].text) : builtIns().end();
  const File *home = block ? shared.program.file(block->name.range.file) : nullptr;
  if (block && it != builtIns().end() && home != here().file)
    return poison(Code::E0103, e.callee.range,
                  it->first + " is built in, and what is imported has a block of that name; " +
                      (isName(home->stem) ? "write " + home->stem + "." + it->first + " for the block, or give it"
                                          : "give the block") +
                      " another name");
  if (block)
    return callBlock(e, *block);
  if (it == builtIns().end()) {
    evaluateArguments(e); // what is wrong in them is reported, too
    if (here().file->mayLack())
      return Val::poison();
    std::vector<std::string> all = shared.program.blockNames(*here().file);
    for (const auto &entry : builtIns())
      all.push_back(entry.first);
    if (!e.callee.single() && !isCallable(e.callee.last()))
      llvm::erase(all, e.callee.last().text);
    std::string hint = whatIsCalled(here(), e.callee);
    if (hint.empty())
      hint = otherCall(e.callee, all, *here().file, builtIns().count(e.callee.last().text) != 0);
    error(Code::E0112, e.callee.range, "no block or function is called " + quoted(e.callee.text()) + hint);
    return Val::poison();
  }
  return callBuiltIn(e, it->first, it->second, false);
}

Val Elaborator::callLifted(const CallExpr &e) {
  const std::string name = e.callee.text();
  if (isBlock(*here().file, e.callee))
    return poison(Code::E0205, e.range,
                  "outer(…) takes one operation of two operands, as in outer(a + b), and " + name + " is a block here");
  return callBuiltIn(e, name, builtIns().at(name), true);
}

Val Elaborator::callBuiltIn(const CallExpr &e, const std::string &name, const BuiltIn &of, bool lifted) {
  if (e.as || e.with)
    return poison(Code::E0124, e.as ? e.as->range : e.with->range,
                  name +
                      " is a function without parameters; `as` and `with` name the parameters of a block's call, and "
                      "come right after it, as in gelu(nn.linear(…) as up)");
  std::vector<std::string> names(of.arguments.begin(), of.arguments.end());
  std::set<std::string> required(names.begin(), names.begin() + of.required);
  auto args = bind(e.arguments, names, required, name, e.range, {}, of.isVariadic);
  if (!args) {
    evaluateArguments(e);
    return Val::poison();
  }
  args->lifted = lifted;
  llvm::SaveAndRestore at(build.loc, scopes.location(e.range));
  return of.function(*this, e, *args);
}

std::optional<std::string> Elaborator::sharedPrefix(const CallExpr &e, const Block &block) {
  // The name is looked for in the repeat that the call is in, then outward to its block.
  std::string text = e.with->text(), prefix = here().prefix;
  const std::string &floor = here().callPrefix;
  for (;;) {
    auto it = calls.find(prefix + text);
    if (it != calls.end()) {
      if (it->second.block != &block) {
        error(Code::E0124, e.with->range,
              text + " is a call of " + it->second.block->name.text + ", so " + block.name.text +
                  " cannot take its parameters")
            .note(it->second.range, text + " is here");
        return std::nullopt;
      }
      return it->first + ".";
    }
    if (prefix.size() <= floor.size())
      break;
    prefix.pop_back();
    size_t dot = prefix.rfind('.');
    prefix = dot == std::string::npos ? "" : prefix.substr(0, dot + 1);
    if (prefix.size() < floor.size())
      break;
  }
  std::vector<std::string> known; // calls of the block, as they are written here
  std::map<std::string, SourceRange> places;
  for (const auto &[path, called] : calls)
    if (called.block == &block && path.compare(0, floor.size(), floor) == 0) {
      size_t start = path.compare(0, here().prefix.size(), here().prefix) == 0 ? here().prefix.size() : floor.size();
      known.push_back(path.substr(start));
      places[known.back()] = called.range;
    }
  std::string near = nearest(text, known), hint = didYouMean(text, known);
  if (hint.empty())
    hint = known.empty()       ? "; no call of " + block.name.text + " comes before this one"
           : known.size() == 1 ? "; write `with " + known[0] + "`"
           : known.size() <= 8 ? "; the calls of " + block.name.text + " before this one are named " + listed(known)
                               : "";
  auto &d = error(Code::E0124, e.with->range, "no earlier call here is named " + quoted(text) + hint);
  if (near.empty() && known.size() == 1)
    d.note(places[known[0]], "this call is named " + known[0] + "; `as " + text + "` after it names it " + text);
  return std::nullopt;
}

/// The axis that a formal stands for where the call does not say: that of its name in the scopes around the call.
const AxisInfo *Elaborator::axisUnlessTold(const CallExpr &e, const Formal &formal) {
  const auto *word = dynCast<PathExpr>(formal.value);
  if (!word || !word->path.single()) {
    error(Code::E0209, formal.value->range, formal.name.text + " is an axis: write its name");
    return nullptr;
  }
  for (Scope *s = &here(); s; s = s->caller)
    if (auto it = s->axes.find(word->path.parts[0].text); it != s->axes.end() && it->second)
      return it->second;
  error(Code::E0111, e.range,
        e.callee.text() + " works on axis " + word->path.text() + " unless told, and there is none here; say " +
            formal.name.text + " = …");
  return nullptr;
}

/// Gives `inner` the call's arguments. They belong to the caller: their names, their loops, their place.
bool Elaborator::passArguments(const CallExpr &e, const Block &block, Scope &inner) {
  std::vector<std::string> names;
  std::set<std::string> required;
  for (const Formal &f : block.formals) {
    names.push_back(f.name.text);
    if (!f.value)
      required.insert(f.name.text);
  }
  std::set<std::string> takenAsAxes;
  for (const Formal &f : block.formals)
    if (f.isAxis && f.name.text != "over" && f.name.text != "window")
      takenAsAxes.insert(f.name.text);
  auto args = bind(e.arguments, names, required, e.callee.text(), e.range, takenAsAxes);
  if (!args) {
    evaluateArguments(e);
    return false;
  }
  for (const auto &[name, argument] : args->given)
    if (argument->value)
      inner.given[name] = argument->value->range;
  bool good = true;
  for (const Formal &f : block.formals) // arguments in a wrong order are one mistake
    if (const auto *word = f.isAxis ? nullptr : dynCast<PathExpr>((*args)[f.name.text.c_str()]);
        word && word->path.single() && scopes.findAxis(word->path.text()) && !here().values.count(word->path.text())) {
      error(Code::E0209, word->range,
            word->path.text() + " is an axis, and " + e.callee.text() + " takes a value as its " + f.name.text)
          .note(formOfCall(e.callee.text(), names, required));
      return false;
    }
  for (const Formal &f : block.formals) {
    const Expr *given = (*args)[f.name.text.c_str()];
    if (f.isAxis) {
      const AxisInfo *axis = given ? read.axis(*given, f.name.text.c_str()) : axisUnlessTold(e, f);
      good &= axis != nullptr;
      inner.axes[f.name.text] = axis;
    } else if (given) {
      inner.values[f.name.text] = eval(*given);
    }
  }
  return good && llvm::none_of(inner.values, [](const auto &entry) { return entry.second.isPoison(); });
}

/// The paths of what the call declares: its own, or, under `with`, those of an earlier call.
bool Elaborator::choosePrefix(const CallExpr &e, const Block &block, Scope &inner) {
  if (e.with) {
    auto prefix = sharedPrefix(e, block);
    if (!prefix)
      return false;
    inner.prefix = *prefix;
    inner.sharing = true;
    if (e.as)
      calls.emplace(here().prefix + e.as->text, Called{&block, e.range});
  } else {
    std::string name = e.as ? e.as->text : here().callNames.count(&e) ? here().callNames[&e] : block.name.text;
    std::string path = here().prefix + name;
    inner.sharing = here().sharing;
    auto [earlier, isNew] = calls.emplace(path, Called{&block, e.range});
    if (!isNew && !here().sharing) {
      error(Code::E0103, e.as ? e.as->range : e.range,
            "a call is named " + name + " already; `with " + name +
                "` shares its parameters, another name gives this call its own");
      return false;
    }
    inner.prefix = path + ".";
  }
  inner.callPrefix = inner.prefix;
  return true;
}

Val Elaborator::callBlock(const CallExpr &e, const Block &block) {
  ++callCount;
  const unsigned before = counter.order.size();
  for (Scope *s = &here(); s; s = s->caller)
    if (s->block == &block)
      return poison(Code::E0122, e.callee.range,
                    "block " + block.name.text + " calls itself" +
                        (s == &here() ? "" : ", through " + here().block->name.text) +
                        "; a repeat makes a stack of layers");
  if (block.broken) { // reported where it is declared
    evaluateArguments(e);
    return Val::poison();
  }
  Scope inner;
  inner.block = &block;
  inner.file = shared.program.file(block.file);
  inner.body = &block.body;
  inner.caller = &here();
  inner.callRange = e.range;
  inner.isLibrary = inner.file->isLibrary;
  if (!passArguments(e, block, inner) || !choosePrefix(e, block, inner))
    return Val::poison();

  Scopes::Entered entered(scopes, inner);
  ++depth;
  const StringAttr outerCall = counter.within;
  counter.within = builder.getStringAttr(inner.callPrefix);
  llvm::SaveAndRestore at(build.loc, scopes.location(block.range));
  for (const Formal &f : block.formals)
    if (!f.isAxis && !inner.values.count(f.name.text) && f.value)
      inner.values[f.name.text] = eval(*f.value);
  inner.callNames = nameCalls(block.body, [&](const Path &p) { return isBlock(*inner.file, p); });
  execute(block.body);
  --depth;
  Val result = inner.result.value_or(Val::poison());
  if (!inner.result && !inner.mayReturn && !budgetReported)
    error(Code::E0018, block.name.range,
          "block " + block.name.text + " does not return a value; end it with return VALUE");
  counter.within = outerCall;
  notePath(result, StringRef(inner.callPrefix).drop_back());
  if (Operation *made = result.isTensor() ? result.value.getDefiningOp() : nullptr;
      made && counter.order.lookup(made) >= before && counter.order.count(made) && !isa<NameLoc>(made->getLoc()))
    made->setAttr(kCalled, builder.getStringAttr(StringRef(inner.callPrefix).drop_back()));
  return result;
}
