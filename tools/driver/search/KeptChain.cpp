#include "tools/driver/search/KeptChain.h"

#include <algorithm>

using namespace echelon::frontend;

namespace echelon {

namespace {
RecomputeSettings policyOf(const char *word, std::vector<std::string> names = {}) {
  RecomputeSettings made;
  made.policy = word;
  for (const std::string &name : names)
    made.keep.push_back(Path{{Ident{name, {}}}, {}});
  return made;
}

/// One pass of few samples, on ranks that split tensors as much as any do.
PlannedLayout widestPart(const LayoutSpace &space) {
  const LayoutFrame *widest = &space.frames.front();
  for (const LayoutFrame &frame : space.frames)
    if (frame.tensor * frame.context > widest->tensor * widest->context)
      widest = &frame;
  PlannedLayout made;
  for (size_t i = 0; i < widest->mesh.size(); ++i)
    if (int(i) != widest->stageAxis && !llvm::is_contained(widest->sampleAxes, int(i))) {
      made.mesh.push_back(widest->mesh[i]);
      made.mesh.back().stored.clear();
    }
  return made;
}

/// A set of values to keep, and what one pass takes that keeps them.
struct Kept {
  RecomputeSettings policy;
  std::vector<std::string> names;
  planner::Price price;
  bool isRefused() const { return price.kind == planner::Price::Kind::Refused; }
};

void askAll(Trials &trials, const PlannedLayout &part, std::vector<Kept> &sets) {
  trials.onAll(
      sets.size(),
      [&](Trial &trial, size_t i) {
        PlannedLayout layout = part;
        layout.recompute = sets[i].policy;
        sets[i].price = trial.ask(layout, false);
        sets[i].names = trial.kept;
      },
      [](Trial &, size_t) {});
}

/// Of sets that grow those that are faster than all before them, at most so many, their bytes in nearly equal steps.
std::vector<RecomputeSettings> stepsOf(const std::vector<Kept> &sets, const planner::Price &full) {
  constexpr size_t kMostSets = 4;
  std::vector<const Kept *> faster;
  double best = full.seconds;
  for (const Kept &set : sets)
    if (!set.isRefused() && !set.names.empty() && set.price.seconds < best) {
      best = set.price.seconds;
      faster.push_back(&set);
    }
  std::vector<RecomputeSettings> chosen;
  for (size_t i = 0; i < faster.size(); ++i) {
    const double all = double(faster.back()->price.bytes - full.bytes);
    const double next = i + 1 < faster.size() ? double(faster[i + 1]->price.bytes - full.bytes) : 2 * all;
    if (chosen.size() < kMostSets && next > all * double(chosen.size() + 1) / double(kMostSets))
      chosen.push_back(policyOf("keep", faster[i]->names));
  }
  return chosen;
}

/// Sets of the values that save most for their bytes, alone: of one, two, ….
std::vector<Kept> growing(std::vector<Kept> alone, const planner::Price &full) {
  llvm::erase_if(alone, [&](const Kept &value) {
    return value.isRefused() || value.names.empty() || value.price.seconds >= full.seconds;
  });
  auto worth = [&](const Kept &value) {
    return (full.seconds - value.price.seconds) / double(std::max<int64_t>(value.price.bytes - full.bytes, 1));
  };
  std::stable_sort(alone.begin(), alone.end(), [&](const Kept &a, const Kept &b) { return worth(a) > worth(b); });
  std::vector<Kept> sets;
  std::vector<std::string> names;
  for (const Kept &value : alone) {
    names.insert(names.end(), value.names.begin(), value.names.end());
    sets.push_back({policyOf("keep", names), {}, {}});
  }
  return sets;
}
} // namespace

std::vector<RecomputeSettings> policiesOf(const LayoutSpace &space, Trials &trials) {
  if (!space.isRecomputeOpen)
    return {};
  const RecomputeSettings none, full = policyOf("full");
  if (!space.hasRepeats)
    return space.isRecomputeAuto ? std::vector<RecomputeSettings>{none} : std::vector<RecomputeSettings>{};
  if (!space.isRecomputeAuto)
    return {none, full};
  const PlannedLayout part = widestPart(space);
  std::vector<Kept> alone = {{full, {}, {}}};
  for (const std::string &name : trials.first().namesToKeep())
    alone.push_back({policyOf("keep", {name}), {}, {}});
  askAll(trials, part, alone);
  const planner::Price all = alone.front().price;
  alone.erase(alone.begin());
  std::vector<Kept> sets = growing(std::move(alone), all);
  askAll(trials, part, sets);
  std::vector<RecomputeSettings> made = stepsOf(sets, all);
  made.push_back(none);
  std::reverse(made.begin(), made.end());
  made.push_back(full);
  return made;
}

} // namespace echelon
