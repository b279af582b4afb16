// Finds the stretch of text that a path names, and puts the new text there.
#include "tools/driver/edit/Settings.h"

#include "tools/driver/edit/TextEdits.h"

#include "frontend/Diagnostics.h"
#include "llvm/ADT/ArrayRef.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/SmallVector.h"
#include "llvm/ADT/StringRef.h"

#include <algorithm>

using namespace echelon;
using namespace echelon::frontend;

namespace {

class Setter {
public:
  Setter(const SourceManager &sources, std::string value) : sources(sources), value(std::move(value)) {}
  std::vector<TextEdit> edits;
  std::string why;

  void replace(SourceRange range) { edits.push_back(replacement(range, value)); }

  /// All that a clause says behind its word.
  void replaceAfterWord(const Clause &clause) {
    edits.push_back(replacement(clause.range, clause.word.text + " " + value));
  }

  /// Arguments in parentheses: `names` is what is left of the path.
  void arguments(const std::vector<Argument> &list, SourceRange call, llvm::ArrayRef<llvm::StringRef> names) {
    for (const Argument &argument : list) {
      if (!argument.name || argument.name->text != names.front())
        continue;
      if (names.size() == 1)
        return replace(argument.high ? join(argument.value->range, argument.high->range) : argument.value->range);
      if (const auto *inner = dynCast<CallExpr>(argument.value))
        return arguments(inner->arguments, inner->range, names.drop_front());
      why = names.front().str() + " has no parts";
      return;
    }
    if (names.size() > 1) {
      why = "there is no argument " + names.front().str() + " to set a part of";
      return;
    }
    add(list, call, names.front());
  }

private:
  const SourceManager &sources;
  std::string value;

  void add(const std::vector<Argument> &list, SourceRange call, llvm::StringRef name) {
    std::string text = name.str() + " = " + value;
    llvm::StringRef written(sources.text(call));
    size_t close = written.rfind(')');
    if (close == llvm::StringRef::npos)
      edits.push_back(addedArgument(call.end(), "(", text, ")"));
    else
      edits.push_back(addedArgument(call.offset + static_cast<uint32_t>(close), list.empty() ? "" : ", ", text, ""));
  }
};

/// From the callee's name to the clause's end, for clauses that are one call.
SourceRange callRange(const Path &path, SourceRange clause) {
  SourceRange range = path.range;
  range.length = clause.end() - range.offset;
  return range;
}

/// The call whose arguments a clause has, for clauses that are one call; null where it is none.
struct Call {
  const std::vector<Argument> *list = nullptr;
  SourceRange range = {};
};
Call callOf(const Clause &clause) {
  if (const auto *c = std::get_if<ModelClause>(&clause.what))
    return {&c->arguments, callRange(c->model, clause.range)};
  if (const auto *c = std::get_if<OnClause>(&clause.what); c && c->hasArguments)
    return {&c->arguments, callRange(c->cluster, clause.range)};
  if (const auto *c = std::get_if<OptimizeClause>(&clause.what))
    return {&c->method.arguments, c->method.range};
  if (const auto *c = std::get_if<AverageClause>(&clause.what))
    return {&c->method.arguments, c->method.range};
  if (const auto *c = std::get_if<DataClause>(&clause.what))
    if (const auto *source = dynCast<CallExpr>(c->source))
      return {&source->arguments, source->range};
  return {};
}

/// Of a mesh axis, its size or `auto`.
SourceRange sizeOf(const MeshAxis &axis) {
  if (axis.size)
    return axis.size->range;
  constexpr uint32_t kAuto = 4;
  SourceRange range = axis.range; // `dp = auto`
  range.offset += range.length - kAuto;
  range.length = kAuto;
  return range;
}

/// Applies one setting to one clause; false when the clause has nothing that `names` could mean.
bool set(Setter &setter, const Clause &clause, llvm::ArrayRef<llvm::StringRef> names) {
  auto count = [&](const Count &c) {
    if (!names.empty())
      return false;
    setter.replace(c.range);
    return true;
  };
  if (const Call call = callOf(clause); call.list) {
    if (names.empty())
      return false;
    setter.arguments(*call.list, call.range, names);
  } else if (const auto *c = std::get_if<BatchClause>(&clause.what)) {
    if (names.size() == 1 && names.front() == "micro" && c->micro)
      setter.replace(c->micro->range);
    else
      return count(c->size);
  } else if (const auto *c = std::get_if<LengthClause>(&clause.what)) {
    return count(c->count);
  } else if (const auto *c = std::get_if<SeedClause>(&clause.what)) {
    return count(c->seed);
  } else if (const auto *c = std::get_if<EvaluateClause>(&clause.what)) {
    if (names.size() == 1 && names.front() == "batches" && c->batches)
      setter.replace(c->batches->range);
    else
      return count(c->every);
  } else if (const auto *c = std::get_if<CheckpointClause>(&clause.what)) {
    if (names.size() == 1 && names.front() == "keep" && c->keep)
      setter.replace(c->keep->range);
    else if (names.empty() && c->steps)
      setter.replace(c->steps->range);
    else if (names.empty() && c->period)
      setter.replace(c->period->range);
    else
      return false;
  } else if (const auto *c = std::get_if<PrecisionClause>(&clause.what)) {
    if (!names.empty() || c->items.empty())
      return false;
    setter.replace(join(c->items.front().range, c->items.back().range));
  } else if (std::holds_alternative<RecomputeClause>(clause.what)) {
    if (!names.empty())
      return false;
    setter.replaceAfterWord(clause);
  } else if (const auto *c = std::get_if<LayoutClause>(&clause.what)) {
    for (const MeshAxis &axis : c->mesh)
      if (names.size() == 1 && axis.name.text == names.front()) {
        setter.replace(sizeOf(axis));
        return true;
      }
    return false;
  } else {
    return false;
  }
  return true;
}

/// What of a clause can be set, for a message.
std::string settable(const Clause &clause, const SourceManager &sources) {
  const std::string &word = clause.word.text;
  if (callOf(clause).list)
    return "; its arguments can be set, each as " + word + ".NAME";
  std::vector<std::string> parts = {"micro", "batches", "keep"}, paths;
  if (const auto *c = std::get_if<LayoutClause>(&clause.what))
    for (const MeshAxis &axis : c->mesh)
      parts.push_back(axis.name.text);
  Setter trial(sources, "");
  if (set(trial, clause, {}))
    paths.push_back(word);
  for (const std::string &part : parts)
    if (set(trial, clause, llvm::StringRef(part)))
      paths.push_back(word + "." + part);
  return paths.empty() ? "; change it in the spec"
                       : "; " + listed(paths) + " can be set; the rest is written in the spec";
}

/// Whether it is written there, in a clause of which others may be meant.
bool hasArgument(const Clause &clause, llvm::StringRef name) {
  const bool isOne =
      std::holds_alternative<ModelClause>(clause.what) || std::holds_alternative<OptimizeClause>(clause.what);
  return isOne && llvm::any_of(*callOf(clause).list, [&](const Argument &a) { return a.name && a.name->text == name; });
}

std::string hintFor(llvm::StringRef word, const std::vector<std::string> &words) {
  std::string near = didYouMean(std::string_view(word), words);
  return near.empty() ? "; it has " + listed(words) + ", and arguments are named after their clause, as in optimize.lr"
                      : near;
}

/// Of several clauses of one word those that have the value. The norm that `clip` bounds is that of all gradients: it
/// may appear in any of them.
std::vector<const Clause *> having(const std::vector<const Clause *> &clauses, llvm::ArrayRef<llvm::StringRef> names,
                                   const SourceManager &sources) {
  std::vector<const Clause *> found;
  for (const Clause *clause : clauses) {
    Setter trial(sources, "");
    const bool isThere = set(trial, *clause, names) && trial.why.empty(); // `lr = 0.1` has no parts
    const bool isArgument = std::holds_alternative<OptimizeClause>(clause->what);
    if (isThere && (!isArgument || hasArgument(*clause, names.front())))
      found.push_back(clause);
  }
  if (found.empty() && names.size() == 1 && names.front() == "clip")
    found.push_back(clauses.front());
  return found;
}

// Clauses of one value that a train block may leave at their default; what they are set to is added.
bool isOptional(llvm::StringRef clause) { return clause == "precision" || clause == "seed" || clause == "recompute"; }

/// Whether nothing in the text ends the value: what is set is never more than what was asked for.
bool isOneValue(llvm::StringRef value, bool isList) {
  std::string open; // brackets
  for (size_t i = 0; i < value.size(); ++i) {
    switch (value[i]) {
    case '"':
      for (++i; i < value.size() && value[i] != '"'; ++i)
        i += value[i] == '\\';
      break;
    case '(':
    case '[':
      open += value[i] == '(' ? ')' : ']';
      break;
    case ')':
    case ']':
      if (open.empty() || open.back() != value[i])
        return false;
      open.pop_back();
      break;
    case ',':
      if (open.empty() && !isList)
        return false;
      break;
    case '{':
    case '}':
    case ';':
    case '#':
    case '\n':
    case '\r':
      return false;
    default:
      break;
    }
  }
  return open.empty();
}

/// One word of the command line: a path and what is put there.
struct Assignment {
  std::string path, value;
  std::vector<std::string> names; // of the path: the clause's, then what is in it

  llvm::SmallVector<llvm::StringRef> inClause() const { return {names.begin() + 1, names.end()}; }
};

/// False, with `why` set: it does not read as one setting.
bool parse(const std::string &word, Assignment &setting, std::string &why) {
  const auto [path, value] = llvm::StringRef(word).split('=');
  setting = {path.trim().str(), value.trim().str(), {}};
  llvm::SmallVector<llvm::StringRef> names;
  path.trim().split(names, '.');
  for (llvm::StringRef name : names)
    setting.names.push_back(name.str());
  if (setting.value.empty() || llvm::is_contained(setting.names, ""))
    why = quoted(word) + " does not read as path=value, as optimize.lr=3e-4 does";
  else if (!isOneValue(setting.value, setting.path == "precision"))
    why = quoted(word) + " sets more than one value";
  return why.empty();
}

/// The clauses that it sets; where there are several of the word and not one has the value alone, none, with `why` set.
std::vector<const Clause *> clausesMeant(const SourceManager &sources, const Train &train, const Assignment &setting,
                                         std::string &why) {
  std::vector<const Clause *> all;
  for (const Clause &clause : train.clauses)
    if (clause.word.text == setting.names.front())
      all.push_back(&clause);
  if (all.size() <= 1)
    return all;
  std::vector<const Clause *> meant = having(all, setting.inClause(), sources);
  if (meant.size() == 1)
    return meant;
  const std::string clauses = std::to_string(all.size()) + " clauses " + setting.names.front();
  why = (meant.empty() ? "none of the " + clauses + " has that"
                       : std::to_string(meant.size()) + " of the " + clauses + " have that") +
        "; write it in the spec";
  return {};
}

/// Why a train block has nothing of this path.
std::string whyNothing(const SourceManager &sources, const Train &train, const Assignment &setting) {
  const std::string &name = setting.names.front();
  std::vector<std::string> words, owners; // owners: clauses with an argument of that name
  for (const Clause &clause : train.clauses) {
    words.push_back(clause.word.text);
    if (words.back() == name)
      return "the clause " + name + " has no such value" + settable(clause, sources);
    if (hasArgument(clause, name))
      owners.push_back(clause.word.text + "." + name);
  }
  if (!owners.empty())
    return "write --set " + listed(owners, "or") + "=" + escaped(setting.value);
  return "train " + train.name.text + " has no clause " + quoted(name) + hintFor(name, words);
}

/// What one setting changes; nothing, with `why` set, where it cannot be.
std::vector<TextEdit> editsOf(const SourceManager &sources, const Train &train, const Assignment &setting,
                              std::string &why) {
  Setter setter(sources, setting.value);
  bool found = false;
  for (const Clause *clause : clausesMeant(sources, train, setting, why))
    found |= set(setter, *clause, setting.inClause());
  if (why.empty() && !found && setting.names.size() == 1 && isOptional(setting.path)) {
    setter.edits.push_back(
        replacement({train.range.file, train.end.offset, 0}, "  " + setting.path + " " + setting.value + "\n"));
    found = true;
  }
  if (why.empty() && !setter.why.empty())
    why = setter.why;
  else if (why.empty() && !found)
    why = whyNothing(sources, train, setting);
  for (TextEdit &edit : setter.edits)
    edit.path = setting.path;
  return std::move(setter.edits);
}

} // namespace

std::string echelon::applySettings(const SourceManager &sources, const Train &train,
                                   const std::vector<std::string> &settings, std::string &why) {
  std::vector<TextEdit> edits;
  for (const std::string &word : settings) {
    Assignment setting;
    if (!parse(word, setting, why))
      return "";
    for (TextEdit &edit : editsOf(sources, train, setting, why))
      if (why.empty())
        why = combine(edits, std::move(edit));
    if (!why.empty()) {
      why = "cannot set " + quoted(setting.path) + ": " + why;
      return "";
    }
  }
  return edited(std::string(sources.text(train.range.file)), std::move(edits));
}

bool echelon::onlySet(const Train &before, const Train &after, const std::vector<std::string> &settings) {
  auto added = [&](llvm::StringRef clause) {
    return isOptional(clause) &&
           llvm::any_of(settings, [&](llvm::StringRef s) { return s.split('=').first.trim() == clause; });
  };
  size_t same = 0;
  while (same < before.clauses.size() && same < after.clauses.size() &&
         before.clauses[same].word.text == after.clauses[same].word.text)
    ++same;
  return same == before.clauses.size() && std::all_of(after.clauses.begin() + same, after.clauses.end(),
                                                      [&](const Clause &clause) { return added(clause.word.text); });
}
