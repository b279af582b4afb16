// Clauses about memory, faults, files and search. They are checked here and, all but `restart`, `on nan` and
// `recompute`, left to come.
#include "frontend/resolve/Resolver.h"

#include <algorithm>

namespace echelon::frontend {

std::string RecomputeSettings::text() const {
  if (policy.empty())
    return "none";
  if (policy == "every")
    return "every " + std::to_string(every) + " " + axis;
  if (policy != "keep")
    return policy; // "full", or "auto"
  std::string names;
  for (const Path &name : keep)
    names += (names.empty() ? "" : ", ") + name.text();
  return "keep (" + names + ")";
}

void TrainResolver::take(const RecomputeClause &c, const Clause &clause) {
  if (c.every)
    atLeastOne(*c.every, "the number of iterations of a group");
  if (c.within)
    wantKind(*c.within, UnitKind::Bytes, "the memory to stay within");
  RecomputeSettings &made = settings.recompute;
  made.range = clause.range;
  switch (c.policy) {
  case RecomputeClause::None:
    return;
  case RecomputeClause::Full:
    made.policy = "full";
    return;
  case RecomputeClause::Every:
    made.policy = "every";
    made.every = std::max<int64_t>(c.every->value, 1);
    made.axis = c.axis->text;
    return;
  case RecomputeClause::Keep:
    made.policy = "keep";
    for (const Path &name : c.keep) {
      auto isSame = [&](const Path &other) { return other.text() == name.text(); };
      if (std::any_of(made.keep.begin(), made.keep.end(), isSame))
        error(Code::E0402, name.range, quoted(name.text()) + " is named twice");
      else
        made.keep.push_back(name);
    }
    return;
  case RecomputeClause::Auto:
    made.policy = "auto";
    if (c.within && c.within->kind == UnitKind::Bytes) {
      if (!(c.within->value >= 1))
        error(Code::E0404, c.within->range, "the memory to stay within is at least a byte");
      made.within = c.within->value;
    }
    return;
  }
}

void TrainResolver::take(const ExportClause &c, const Clause &clause) {
  if (c.file.empty())
    error(Code::E0404, c.fileRange, "the file has no name");
  notBuilt(clause.range, "export", "leave it out; checkpoint writes snapshots as safetensors");
}

void TrainResolver::needCheckpoint(const std::string &what, SourceRange range) {
  if (std::none_of(train.clauses.begin(), train.clauses.end(),
                   [](const Clause &other) { return std::holds_alternative<CheckpointClause>(other.what); }))
    error(Code::E0401, range,
          what + " goes on from the newest snapshot, and train " + train.name.text +
              " writes none: add a line as 'checkpoint every 200 steps'");
}

void TrainResolver::take(const RestartClause &c, const Clause &clause) {
  constexpr int64_t kMost = 1000000;
  atLeastOne(c.times, "the number of restarts");
  if (c.times.value > kMost)
    error(Code::E0404, c.times.range, "the number of restarts is at most " + std::to_string(kMost));
  needCheckpoint("'restart'", clause.range);
  settings.restarts = c.times.value;
}

void TrainResolver::take(const ElasticClause &c, const Clause &clause) {
  meshAxes({c.axis});
  atLeastOne(c.from, "the smallest size of a mesh axis");
  if (c.from.known && c.to.known && c.to.value < c.from.value)
    error(Code::E0404, join(c.from.range, c.to.range),
          "'elastic' goes from the smallest to the largest size; " + std::to_string(c.from.value) + " is more than " +
              std::to_string(c.to.value));
  notBuilt(clause.range, "elastic");
}

void TrainResolver::take(const OnNanClause &c, const Clause &clause) {
  settings.onNan.action = c.action;
  if (c.action == OnNanClause::Skip) {
    atLeastOne(*c.upTo, "the number of steps skipped in a row");
    settings.onNan.times = c.upTo->value;
  } else if (c.action == OnNanClause::RollBack) {
    settings.onNan.times = 3; // to one snapshot; docs/language.md
    needCheckpoint("'on nan roll back'", clause.range);
  }
}

void TrainResolver::take(const StartClause &c, const Clause &clause) {
  if (c.file.empty())
    error(Code::E0404, c.fileRange, "the file has no name");
  notBuilt(clause.range, "start from", "leave it out; echelon run --resume goes on from a snapshot");
}

void TrainResolver::take(const SearchClause &c, const Clause &clause) {
  for (const SearchClause::Item &item : c.items) {
    if (!item.scale)
      continue;
    if (!oneOf(item.scale->name, {"log", "linear"}, "scale"))
      continue;
    if (item.scale->arguments.size() != 1 || !item.scale->arguments[0].high) {
      error(Code::E0408, item.scale->range, quoted(item.scale->name.text) + " takes a range, as in log(1e-4 .. 1e-2)");
      continue;
    }
    const Argument &range = item.scale->arguments[0];
    auto low = constant(*range.value), high = constant(*range.high);
    if (!low || !high)
      error(Code::E0408, range.range, "the ends of a range are numbers");
    else if (!(*low < *high) || (item.scale->name.text == "log" && !(*low > 0)))
      error(Code::E0404, range.range,
            "a range goes from a smaller to a larger number" +
                std::string(item.scale->name.text == "log" ? ", above 0 for log" : ""));
  }
  if (c.with && oneOf(c.with->name, {"grid", "random", "asha"}, "way of searching")) {
    Arguments args(c.with->name.text, c.with->range, c.with->arguments, {"trials"}, diagnostics);
    args.whole("trials", atLeast(1));
  }
  notBuilt(clause.range, "search", "leave it out; echelon run --set optimize.lr=3e-4 tries one value");
}

void TrainResolver::take(const GoalClause &c, const Clause &clause) {
  notBuilt(clause.range, c.maximize ? "maximize" : "minimize");
}

} // namespace echelon::frontend
