#include "tools/driver/search/KeptChain.h"

#include <algorithm>

using namespace echelon::frontend;

namespace echelon {

namespace {
constexpr size_t kMostSets = 4;

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

struct Value {
  std::string name;
  int64_t bytes = 0;   ///< that keeping it takes
  double seconds = 0;  ///< and saves

  double worth() const { return seconds / double(std::max<int64_t>(bytes, 1)); }
};

/// So many of the first values that their bytes are nearly equal steps from nothing to all.
std::vector<size_t> stepsOf(const std::vector<Value> &values) {
  double all = 0, sum = 0;
  for (const Value &value : values)
    all += double(value.bytes);
  std::vector<size_t> counts;
  for (size_t i = 0; i < values.size(); ++i) {
    sum += double(values[i].bytes);
    const double next = i + 1 < values.size() ? sum + double(values[i + 1].bytes) : 2 * all;
    if (next > all * double(counts.size() + 1) / double(kMostSets) && counts.size() < kMostSets)
      counts.push_back(i + 1);
  }
  return counts;
}
} // namespace

std::vector<RecomputeSettings> policiesOf(const LayoutSpace &space, Trials &trials) {
  if (!space.isRecomputeOpen)
    return {};
  if (!space.hasRepeats)
    return space.isRecomputeAuto ? std::vector<RecomputeSettings>{{}} : std::vector<RecomputeSettings>{};
  std::vector<RecomputeSettings> asked = {RecomputeSettings(), policyOf("full")};
  if (!space.isRecomputeAuto)
    return asked;
  const std::vector<std::string> names = trials.first().namesToKeep();
  for (const std::string &name : names)
    asked.push_back(policyOf("keep", {name}));
  std::vector<planner::Price> prices(asked.size());
  trials.onAll(
      asked.size(),
      [&](Trial &trial, size_t i) {
        PlannedLayout layout = widestPart(space);
        layout.recompute = asked[i];
        prices[i] = trial.ask(layout, false);
      },
      [](Trial &, size_t) {});
  const planner::Price &full = prices[1];
  std::vector<Value> values;
  for (size_t i = 0; i < names.size(); ++i)
    if (const planner::Price &price = prices[i + 2];
        price.kind != planner::Price::Kind::Refused && price.seconds < full.seconds)
      values.push_back({names[i], price.bytes - full.bytes, full.seconds - price.seconds});
  std::stable_sort(values.begin(), values.end(), [](const Value &a, const Value &b) { return a.worth() > b.worth(); });
  std::vector<RecomputeSettings> made = {asked[0]};
  std::vector<size_t> counts = stepsOf(values);
  std::reverse(counts.begin(), counts.end());
  for (size_t count : counts) {
    std::vector<std::string> kept;
    for (size_t i = 0; i < count; ++i)
      kept.push_back(values[i].name);
    made.push_back(policyOf("keep", kept));
  }
  made.push_back(asked[1]);
  return made;
}

} // namespace echelon
