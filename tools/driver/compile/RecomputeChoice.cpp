// Nothing is guessed: each policy that comes into question is compiled until its arenas are planned, and its step and
// its memory are read off that program.
//
// 1. `none`, `full`, and groups of every size that the compiler accepts.
// 2. `keep`: each value alone, which tells what it saves and takes; of these the set that saves most in the room that
//    `full` leaves, a knapsack. Values depend on each other: one that is kept makes what it is made of less worth
//    keeping, or more, where both are needed to be rid of a third. So the set is then improved by a value that comes or
//    goes, as long as the step gets shorter; and so is what is left of all values when those that save least for their
//    bytes have gone, one after the other, until the others fit.
// 3. The fastest of all these that fit; of equally fast ones the smallest. `none` is taken where nothing is faster by
//    more than a hundredth, which is less than a prediction is good for. Where none fits, the smallest, which the check
//    of memory refuses.
#include "tools/driver/compile/RecomputeChoice.h"

#include "ir/ech/Build.h"
#include "ir/ech/Ech.h"
#include "ir/ech/Recompute.h"
#include "mlir/IR/Diagnostics.h"
#include "mlir/Pass/PassManager.h"
#include "planner/choice/Knapsack.h"
#include "tools/driver/compile/StepCost.h"
#include "tools/driver/compile/Units.h"
#include "llvm/ADT/MapVector.h"

#include <algorithm>
#include <functional>
#include <limits>
#include <map>
#include <set>
#include <tuple>
#include <utility>

using namespace echelon::frontend;

namespace echelon {

namespace {

constexpr double kOfNoWeight = 0.01; // part of a step by which another policy has to be faster than none

mlir::Operation *trainOf(mlir::ModuleOp module) { return mlir::SymbolTable::lookupSymbolIn(module, "train"); }

/// How many iterations repeats have, by axis.
std::map<std::string, int64_t> repeatsIn(mlir::ModuleOp module) {
  std::map<std::string, int64_t> counts;
  if (mlir::Operation *train = trainOf(module))
    train->walk([&](ech::RepeatOp loop) {
      int64_t &most = counts[loop.getAxis().str()];
      most = std::max<int64_t>(most, int64_t(loop.getCount()));
    });
  return counts;
}

RecomputeSettings policyOf(const char *word) {
  RecomputeSettings made;
  made.policy = word;
  return made;
}

/// Chosen by compiling: what a policy comes to is asked once.
class RecomputeSearch {
public:
  using Compile = std::function<std::optional<RecomputeTrial>(const RecomputeSettings &)>;
  RecomputeSearch(int64_t limit, Compile compile) : limit(limit), compile(std::move(compile)) {}

  /// `names`, `repeats`: see valuesToKeep and repeatsIn. Nothing: not even `none` compiles.
  std::optional<RecomputeChoice> run(const std::vector<std::string> &names,
                                     const std::map<std::string, int64_t> &repeats);

private:
  using Set = std::set<size_t>; // places in `names`

  const RecomputeTrial *tried(const RecomputeSettings &policy);
  const RecomputeTrial *keeping(const Set &set);
  void placeKept();
  void improve(Set set);
  Set shrunk(Set set);
  bool fits(const RecomputeTrial &trial) const { return !limit || trial.bytes <= limit; }

  int64_t limit;
  Compile compile;
  std::vector<std::string> names;
  std::map<std::string, std::optional<RecomputeTrial>> trials; // by the clause's text; nothing: it is refused
};

const RecomputeTrial *RecomputeSearch::tried(const RecomputeSettings &policy) {
  auto [known, isNew] = trials.try_emplace(policy.text());
  if (isNew)
    known->second = compile(policy);
  return known->second ? &*known->second : nullptr;
}

const RecomputeTrial *RecomputeSearch::keeping(const Set &set) {
  RecomputeSettings policy = policyOf(set.empty() ? "full" : "keep");
  for (const size_t i : set)
    policy.keep.push_back(Path{{Ident{names[i], {}}}, {}});
  return tried(policy);
}

/// A value comes or goes, that by which the step gets shortest first, from a set that fits.
void RecomputeSearch::improve(Set set) {
  const RecomputeTrial *now = keeping(set);
  if (!now || !fits(*now))
    return;
  for (bool isBetter = true; isBetter;) {
    isBetter = false;
    Set best;
    for (size_t i = 0; i < names.size(); ++i) {
      Set other = set;
      if (!other.erase(i))
        other.insert(i);
      const RecomputeTrial *next = keeping(other);
      if (!next || !fits(*next) || next->seconds >= now->seconds)
        continue;
      now = next;
      best = std::move(other);
      isBetter = true;
    }
    if (isBetter)
      set = std::move(best);
  }
}

/// Without that which saves least for its bytes, and so on until it fits.
RecomputeSearch::Set RecomputeSearch::shrunk(Set set) {
  const RecomputeTrial *now = keeping(set);
  while (now && !fits(*now) && !set.empty()) {
    double least = std::numeric_limits<double>::infinity();
    Set best;
    const RecomputeTrial *next = nullptr;
    for (const size_t i : set) {
      Set fewer = set;
      fewer.erase(i);
      const RecomputeTrial *trial = keeping(fewer);
      if (!trial || trial->bytes >= now->bytes)
        continue;
      const double lost = (trial->seconds - now->seconds) / double(now->bytes - trial->bytes);
      if (lost < least) {
        least = lost;
        best = std::move(fewer);
        next = trial;
      }
    }
    set = std::move(best);
    now = next;
  }
  return set;
}

void RecomputeSearch::placeKept() {
  const RecomputeTrial *full = tried(policyOf("full"));
  if (!full)
    return;
  std::vector<std::string> read;
  std::vector<planner::Item> items;
  int64_t all = 0;
  for (const std::string &name : std::exchange(names, {})) {
    RecomputeSettings alone = policyOf("keep");
    alone.keep.push_back(Path{{Ident{name, {}}}, {}});
    const RecomputeTrial *trial = tried(alone);
    if (!trial || trial->policy.keep.empty()) // the backward pass does not read it
      continue;
    read.push_back(name);
    items.push_back({std::max<int64_t>(trial->bytes - full->bytes, 0), std::max(full->seconds - trial->seconds, 0.0)});
    all += items.back().bytes;
  }
  names = std::move(read);
  Set every, chosen;
  for (size_t i = 0; i < names.size(); ++i) {
    every.insert(i);
    if (const RecomputeTrial *alone = keeping({i}); !fits(*full) && fits(*alone))
      improve({i}); // what is kept need not be computed when there is least room
  }
  for (const size_t i : planner::worthMost(items, limit ? limit - full->bytes : all))
    chosen.insert(i);
  improve(shrunk(std::move(chosen)));
  improve(shrunk(std::move(every)));
}

std::optional<RecomputeChoice> RecomputeSearch::run(const std::vector<std::string> &named,
                                                    const std::map<std::string, int64_t> &repeats) {
  names = named;
  const RecomputeTrial *none = tried(RecomputeSettings());
  if (!none)
    return std::nullopt;
  for (const auto &[axis, count] : repeats)
    for (int64_t n = 2; n <= count; ++n)
      if (count % n == 0) {
        RecomputeSettings groups = policyOf("every");
        groups.every = n;
        groups.axis = axis;
        tried(groups);
      }
  placeKept();
  std::map<std::pair<double, int64_t>, RecomputeTrial> distinct; // others come to the same by more, or longer, names
  auto length = [](const RecomputeTrial &trial) {
    return std::tuple(!trial.policy.policy.empty(), trial.policy.keep.size(), trial.policy.text().size());
  };
  for (const auto &[text, trial] : trials)
    if (trial) {
      auto [known, isNew] = distinct.emplace(std::pair(trial->seconds, trial->bytes), *trial);
      if (!isNew && length(*trial) < length(known->second))
        known->second = *trial;
    }
  std::vector<RecomputeTrial> all;
  for (const auto &[cost, trial] : distinct)
    all.push_back(trial);
  std::sort(all.begin(), all.end(), [&](const RecomputeTrial &a, const RecomputeTrial &b) {
    if (fits(a) != fits(b))
      return fits(a);
    return fits(a) ? std::pair(a.seconds, double(a.bytes)) < std::pair(b.seconds, double(b.bytes))
                   : std::pair(double(a.bytes), a.seconds) < std::pair(double(b.bytes), b.seconds);
  });
  const double most = all.front().seconds * (1 + kOfNoWeight);
  const auto isNone = [&](const RecomputeTrial &trial) { return trial.policy.policy.empty(); };
  if (const auto at = std::find_if(all.begin(), all.end(), isNone); fits(*at) && at->seconds <= most)
    std::rotate(all.begin(), at, at + 1);
  RecomputeChoice made;
  made.limit = limit;
  made.chosen = all.front();
  made.others.assign(all.begin() + 1, all.end());
  return made;
}

/// Of the names of `keep` those whose values the backward pass reads, where all of them are kept.
RecomputeSettings whatIsKept(mlir::ModuleOp module, const RecomputeSettings &policy) {
  std::set<std::string> kept;
  if (auto names = module->getAttrOfType<mlir::ArrayAttr>(ech::kKeptByRepeats))
    for (llvm::StringRef name : ech::strings(names))
      kept.insert(name.str());
  RecomputeSettings made = policy;
  llvm::erase_if(made.keep, [&](const Path &name) { return !kept.count(name.text()); });
  return made.keep.empty() ? policyOf("full") : made;
}

/// What `keep` names stays marked, by the names that it has there.
void markKept(mlir::ModuleOp module, const RecomputeSettings &policy) {
  mlir::Builder b(module.getContext());
  module->walk([&](mlir::Operation *op) {
    auto marks = op->getAttrOfType<mlir::ArrayAttr>(ech::kKeptAs);
    if (!marks)
      return;
    llvm::SmallVector<llvm::StringRef> left;
    for (llvm::StringRef path : ech::strings(marks))
      for (const Path &name : policy.keep) {
        const std::string text = name.text();
        if (path == text || path.ends_with("." + text))
          left.push_back(b.getStringAttr(text));
      }
    if (left.empty())
      op->removeDiscardableAttr(ech::kKeptAs);
    else
      op->setDiscardableAttr(ech::kKeptAs, b.getStrArrayAttr(left));
  });
}
} // namespace

std::vector<std::string> valuesToKeep(mlir::ModuleOp module) {
  llvm::MapVector<llvm::StringRef, std::vector<mlir::Operation *>> values;
  if (mlir::Operation *train = trainOf(module))
    train->walk([&](mlir::Operation *op) {
      if (auto marks = op->getAttrOfType<mlir::ArrayAttr>(ech::kKeptAs))
        for (llvm::StringRef name : ech::strings(marks))
          values[name].push_back(op);
    });
  std::map<std::vector<mlir::Operation *>, size_t> places;
  std::vector<std::string> names;
  auto length = [](llvm::StringRef name) { return std::pair(name.count('.'), name.size()); };
  for (const auto &[name, of] : values) {
    auto [known, isNew] = places.emplace(of, names.size());
    if (isNew)
      names.push_back(name.str());
    else if (length(name) < length(names[known->second]))
      names[known->second] = name.str();
  }
  return names;
}

std::string RecomputeChoice::text() const {
  auto told = [](const RecomputeTrial &trial) {
    return "recompute " + trial.policy.text() + ", " + inTime(trial.seconds) + ", " + inBytes(trial.bytes);
  };
  std::string text = "recompute auto: " + told(chosen);
  if (limit)
    text += " of " + (isOfClause ? "the clause's " : std::string("a device's ")) + inBytes(limit);
  text += std::string(chosen.policy.policy.empty() ? "; nothing is faster by more than a hundredth, of "
                                                   : "; the fastest of ") +
          std::to_string(others.size() + 1) + " that were compiled\n";
  constexpr size_t kTold = 3;
  size_t count = 0;
  for (const RecomputeTrial &other : others) {
    const bool isNone = other.policy.policy.empty();
    if (!isNone && (!fits(other) || count++ >= kTold))
      continue;
    text += "  " + told(other) + (fits(other) ? "" : ": there is no room for it") + "\n";
  }
  return text;
}

void Compilation::chooseRecompute() {
  if (settings.recompute.policy != "auto")
    return;
  const RecomputeSettings clause = settings.recompute;
  /// The clause becomes this policy, on a module that is marked with all names.
  auto take = [&](const RecomputeSettings &policy) {
    settings.recompute = policy;
    settings.recompute.range = clause.range;
    settings.recompute.within = clause.within;
    for (Path &name : settings.recompute.keep)
      name.range = clause.range;
    markKept(*module, policy);
    mlir::Builder b(context.get());
    if (!policy.policy.empty())
      annotateRecompute(b);
  };
  auto compile = [&](const RecomputeSettings &policy) -> std::optional<RecomputeTrial> {
    mlir::OwningOpRef<mlir::ModuleOp> whole = std::move(module);
    module = whole->clone();
    take(policy);
    const bool keeps = policy.policy == "keep";
    if (keeps) { // whether each name is of use is found out
      mlir::Builder b(context.get());
      (*module)->setAttr(ech::kRecompute, ech::Recompute{"keep", 0, "", nullptr, nullptr}.toAttribute(b));
    }
    mlir::ScopedDiagnosticHandler quiet(context.get(), [](mlir::Diagnostic &) { return mlir::success(); });
    mlir::PassManager manager(context.get());
    PipelineOptions pipeline = options.pipeline;
    pipeline.target = target();
    buildPipeline(manager, Stage::Shaped, pipeline);
    std::optional<RecomputeTrial> made;
    if (mlir::succeeded(manager.run(*module))) {
      ProgramCost cost = programCost(*module);
      made = RecomputeTrial{keeps ? whatIsKept(*module, policy) : policy, stepCost(*this, 0, cost).time.seconds,
                            cost.memory.total};
    }
    module = std::move(whole);
    return made;
  };
  const int64_t limit = memoryLimit();
  RecomputeSearch search(limit, compile);
  std::optional<RecomputeChoice> choice = search.run(valuesToKeep(*module), repeatsIn(*module));
  take(choice ? choice->chosen.policy
              : RecomputeSettings()); // that `none` does not compile is told where it is lowered
  options.recompute = settings.recompute;
  if (!choice)
    return;
  choice->isOfClause = clause.within > 0 && limit == static_cast<int64_t>(clause.within);
  recomputeChoice = std::make_shared<RecomputeChoice>(std::move(*choice));
}

} // namespace echelon
