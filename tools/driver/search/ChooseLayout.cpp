// Candidates are compiled up to where arenas are planned, and asked what they take; those are left out that a bound,
// from programs of parts that many of them share, or a rule shows to be no faster or to have no room.
#include "tools/driver/search/ChooseLayout.h"

#include "planner/search/BestFirst.h"
#include "tools/driver/search/KeptChain.h"
#include "tools/driver/search/LayoutBounds.h"
#include "tools/driver/search/LayoutSpace.h"
#include "tools/driver/search/Trial.h"
#include "tools/driver/search/Trials.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/Support/Format.h"
#include "llvm/Support/raw_ostream.h"

#include <chrono>
#include <limits>
#include <thread>

using namespace echelon::frontend;

namespace echelon {

namespace {

constexpr size_t kRunnersUp = 3;

class LayoutSearch {
public:
  explicit LayoutSearch(Compilation &compilation) : asking(compilation) {}
  std::shared_ptr<const LayoutChoice> run();

private:
  bool open();
  void setOptions();
  void refuse(const std::string &why);
  planner::SearchResult search(const std::set<Pinned> &relaxed, size_t wanted, int64_t &crowded);
  int64_t leaveOutCrowded();
  planner::SearchProblem problem();
  std::vector<planner::Price> ask(const std::vector<size_t> &some);
  std::vector<size_t> leanest() const;
  std::string whatMakesRoom();
  void refuseForMemory(const planner::SearchResult &result);
  PlannedLayout priced(size_t candidate, const planner::Price &price) const;

  Compilation &asking;
  CompileOptions options; ///< of a trial
  int64_t ranks = 1;
  std::optional<Trials> trials;
  std::optional<LayoutSpace> space;
  std::optional<LayoutBounds> bounds;
  std::map<size_t, std::map<std::string, double>> terms; ///< of candidates that were compiled
};

void LayoutSearch::refuse(const std::string &why) {
  asking.diagnostics.error(Code::E0314, asking.settings.layoutRange, why);
}

void LayoutSearch::setOptions() {
  options.spec = asking.options.spec;
  options.train = asking.train->name.text;
  options.settings = asking.options.settings;
  options.nodeRanks = asking.options.nodeRanks;
  options.pipeline = asking.options.pipeline;
  options.machineFile = asking.options.machineFile;
  options.machine = asking.options.machine;
  options.ofCluster = options.machine == Machine::Cpu;
  options.needsNoData = asking.options.needsNoData;
  options.leavesLayoutOpen = options.anyMemory = true;
  options.warns = false;
}

/// Trials; false: errors are told.
bool LayoutSearch::open() {
  setOptions();
  const size_t cores = std::max(1u, std::thread::hardware_concurrency());
  bool saysWhere = asking.settings.cluster != nullptr;
  for (const Clause &clause : asking.train->clauses)
    saysWhere |= std::holds_alternative<OnClause>(clause.what);
  ranks = saysWhere ? std::max<int64_t>(asking.settings.clusterRanks, 1) : int64_t(cores);
  constexpr size_t kMostThreads = 8;
  trials.emplace(options, std::min(cores, kMostThreads));
  Trial &first = trials->first();
  const bool isGood = first.isGood && first.elaborate();
  for (const Diagnostic &said : first.compilation.diagnostics.sorted())
    if (!isGood && said.severity == Severity::Error)
      asking.diagnostics.report(said.code, said.severity, said.range, said.message);
  return isGood;
}

/// Of a model that the first trial has elaborated. `crowded`: so many candidates were left out at once.
planner::SearchResult LayoutSearch::search(const std::set<Pinned> &relaxed, size_t wanted, int64_t &crowded) {
  terms.clear();
  bounds.reset();
  trials->first().elaborate();
  space.emplace(trials->first().compilation, ranks, relaxed);
  if (!space->frames.empty())
    space->enumerate(policiesOf(*space, *trials));
  crowded = 0;
  if (space->candidates.empty())
    return {};
  bounds.emplace(*space, trials->first().room);
  bounds->isShort = trials->first().room && !asking.settings.offload;
  bounds->ask(*trials);
  crowded = leaveOutCrowded();
  planner::SearchProblem asked = problem();
  asked.wanted = wanted;
  planner::SearchResult result = planner::searchBestFirst(asked);
  if (result.fit.empty() && result.noRoom.empty() && result.without > 0) {
    const std::vector<size_t> lean = leanest();
    const std::vector<planner::Price> prices = ask(lean);
    for (size_t i = 0; i < lean.size(); ++i)
      if (prices[i].kind != planner::Price::Kind::Refused)
        (prices[i].kind == planner::Price::Kind::Fits ? result.fit : result.noRoom).push_back({lean[i], prices[i]});
  }
  return result;
}

/// Those that have no room by what their ranks have at least; where none has any, all stay. Returns how many went.
int64_t LayoutSearch::leaveOutCrowded() {
  std::vector<LayoutCandidate> roomy;
  for (const LayoutCandidate &candidate : space->candidates)
    if (!bounds->isWithoutRoom(candidate))
      roomy.push_back(candidate);
  if (roomy.empty())
    return 0;
  const auto gone = int64_t(space->candidates.size() - roomy.size());
  space->candidates = std::move(roomy);
  return gone;
}

std::vector<planner::Price> LayoutSearch::ask(const std::vector<size_t> &some) {
  std::vector<planner::Price> prices(some.size());
  trials->onAll(
      some.size(), [&](Trial &trial, size_t i) { prices[i] = trial.ask(space->layoutOf(space->candidates[some[i]])); },
      [&](Trial &trial, size_t i) {
        if (prices[i].kind != planner::Price::Kind::Refused)
          for (size_t t = 0; t < trial.step.step.terms.size(); ++t)
            terms[some[i]][trial.step.step.terms[t]] = trial.step.time.terms[t];
      });
  return prices;
}

PlannedLayout LayoutSearch::priced(size_t candidate, const planner::Price &price) const {
  PlannedLayout made = space->layoutOf(space->candidates[candidate]);
  made.seconds = price.seconds;
  made.bytes = price.bytes;
  if (auto it = terms.find(candidate); it != terms.end())
    made.terms = it->second;
  return made;
}

std::string inGigabytes(int64_t bytes) {
  std::string text;
  llvm::raw_string_ostream(text) << llvm::format("%.3g GB", double(bytes) / 1e9);
  return text;
}

/// Those that seem to take least, where none was compiled.
std::vector<size_t> LayoutSearch::leanest() const {
  constexpr size_t kMost = 8;
  std::vector<std::pair<double, size_t>> order;
  for (size_t i = 0; i < space->candidates.size(); ++i)
    order.push_back({bounds->likelyBytes(space->candidates[i]), i});
  const auto end = order.begin() + ptrdiff_t(std::min(kMost, order.size()));
  std::partial_sort(order.begin(), end, order.end());
  std::vector<size_t> lean;
  for (auto it = order.begin(); it != end; ++it)
    lean.push_back(it->second);
  return lean;
}

void LayoutSearch::refuseForMemory(const planner::SearchResult &result) {
  if (result.noRoom.empty()) {
    std::string why = "no layout of all ranks can be compiled";
    if (!result.refused.empty()) {
      const PlannedLayout layout = space->layoutOf(space->candidates[result.refused.front()]);
      Trial again(options);
      again.ask(layout);
      why += "; " + layout.text() + " is refused: " + again.compilation.firstError();
    }
    return refuse(why);
  }
  auto nearest = std::min_element(result.noRoom.begin(), result.noRoom.end(), [](const auto &a, const auto &b) {
    return a.second.bytes != b.second.bytes ? a.second.bytes < b.second.bytes : a.first < b.first;
  });
  const int64_t room = trials->first().room;
  const std::string limit = room < asking.settings.deviceBytes || !asking.settings.deviceBytes
                                ? "recompute auto is to stay within "
                                : "a " + asking.settings.deviceName + " has ";
  const std::string why = "no layout has room: " + limit + inGigabytes(room) + ", and the one that takes least, " +
                          space->layoutOf(space->candidates[nearest->first]).text() + ", takes " +
                          inGigabytes(nearest->second.bytes) + " a rank";
  refuse(why + whatMakesRoom());
}

/// The smallest sets of what the spec says without which a layout has room, and the fastest of these layouts.
std::string LayoutSearch::whatMakesRoom() {
  const std::vector<std::pair<Pinned, std::string>> pinned = space->pinned();
  std::vector<std::string> sets;
  std::optional<PlannedLayout> fastest;
  for (size_t size = 1; size <= 2 && sets.empty(); ++size)
    for (unsigned set = 0; set < 1u << pinned.size(); ++set) {
      std::set<Pinned> relaxed;
      std::string names;
      for (size_t i = 0; i < pinned.size(); ++i)
        if (set >> i & 1) {
          relaxed.insert(pinned[i].first);
          names += (names.empty() ? "`" : " and `") + pinned[i].second + "`";
        }
      int64_t crowded = 0;
      if (relaxed.size() != size)
        continue;
      const planner::SearchResult result = search(relaxed, 1, crowded);
      if (result.fit.empty())
        continue;
      sets.push_back(names);
      const PlannedLayout found = priced(result.fit.front().first, result.fit.front().second);
      if (!fastest || found.seconds < fastest->seconds)
        fastest = found;
    }
  if (pinned.empty())
    return "";
  std::string said;
  for (const auto &[what, text] : pinned)
    said += (said.empty() ? "`" : ", `") + text + "`";
  if (sets.empty())
    return "; nor has any without two of " + said;
  return "; without " + llvm::join(sets, ", or without ") + " there is room: " + fastest->text() + " takes " +
         inTime(fastest->seconds) + " a step and " + inGigabytes(fastest->bytes) + " a rank";
}

/// Which candidates need more memory than others: those with more samples in a pass, with less that is stored in cuts,
/// that keep what others recompute. And where both have room, what is recomputed takes no less time.
planner::SearchProblem LayoutSearch::problem() {
  planner::SearchProblem made;
  for (const LayoutCandidate &candidate : space->candidates) {
    made.bounds.push_back(bounds->leastSeconds(candidate));
    made.groups.push_back(candidate.group);
  }
  made.needsNoLess = [this](size_t a, size_t b) {
    const LayoutCandidate &lean = space->candidates[a], &other = space->candidates[b];
    return lean.perPass <= other.perPass && lean.stored >= other.stored && lean.policy >= other.policy;
  };
  made.isNoFaster = [this](size_t a, size_t b) {
    const LayoutCandidate &one = space->candidates[a], &other = space->candidates[b];
    return one.frame == other.frame && one.perPass == other.perPass && one.stored == other.stored &&
           one.policy < other.policy;
  };
  using Level = LayoutBounds::Level;
  for (Level level : {Level::Shared, Level::Sending, Level::Own})
    made.tighten.push_back(
        [this, level](const std::vector<size_t> &some) { return bounds->tightened(some, level, *trials); });
  made.ask = [this](const std::vector<size_t> &some) { return ask(some); };
  return made;
}

std::shared_ptr<const LayoutChoice> LayoutSearch::run() {
  const auto began = std::chrono::steady_clock::now();
  if (!open())
    return nullptr;
  int64_t crowded = 0;
  const planner::SearchResult result = search({}, 1 + kRunnersUp, crowded);
  if (space->candidates.empty()) {
    refuse(space->why);
    return nullptr;
  }
  if (result.fit.empty()) {
    refuseForMemory(result);
    return nullptr;
  }
  auto choice = std::make_shared<LayoutChoice>();
  choice->ranks = ranks;
  choice->counted = int64_t(space->candidates.size()) + crowded;
  choice->without = result.without + crowded;
  choice->refused = int64_t(result.refused.size());
  choice->cut = result.cut;
  choice->fit = int64_t(result.fit.size());
  choice->asked = result.asked;
  choice->best = priced(result.fit.front().first, result.fit.front().second);
  for (size_t i = 1; i < result.fit.size() && i <= kRunnersUp; ++i)
    choice->runnersUp.push_back(priced(result.fit[i].first, result.fit[i].second));
  choice->seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - began).count();
  return choice;
}

} // namespace

std::shared_ptr<const LayoutChoice> chooseLayout(Compilation &compilation) { return LayoutSearch(compilation).run(); }

} // namespace echelon
