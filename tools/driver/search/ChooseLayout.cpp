// Candidates are compiled up to where arenas are planned, and asked what they take; those are left out that a bound, from
// the model's products alone, or a rule shows to be no faster or to have no room.
#include "tools/driver/search/ChooseLayout.h"

#include "frontend/resolve/MachineOf.h"
#include "passes/cost/StepProgram.h"
#include "planner/search/BestFirst.h"
#include "planner/timeline/Timeline.h"
#include "tools/driver/compile/StepCost.h"
#include "tools/driver/search/LayoutSpace.h"
#include "llvm/Support/Format.h"
#include "llvm/Support/raw_ostream.h"

#include <chrono>
#include <limits>
#include <thread>

using namespace echelon::frontend;

namespace echelon {

namespace {

/// A spec that one layout after the other is tried on.
class Trial {
public:
  explicit Trial(const CompileOptions &options) : compilation(options) {
    isGood = compilation.parse() && compilation.resolve();
    resolved = compilation.settings;
  }

  planner::Price ask(const PlannedLayout &layout) {
    compilation.settings = resolved;
    compilation.settings.mesh = layout.mesh;
    compilation.settings.microBatches = layout.microBatches;
    if (layout.recompute == "full")
      compilation.settings.recompute.policy = "full";
    planner::Price price;
    if (!compilation.elaborate() || !compilation.lower(Stage::Shaped))
      return price;
    ProgramCost cost = programCost(*compilation.module);
    step = stepCost(compilation, 0, cost);
    memory = cost.memory;
    price.bytes = memory.total;
    price.seconds = step.time.seconds;
    const int64_t room = compilation.settings.deviceBytes;
    price.kind = room && price.bytes > room ? planner::Price::Kind::NoRoom : planner::Price::Kind::Fits;
    return price;
  }

  Compilation compilation;
  RunSettings resolved;
  bool isGood = false;
  StepCost step; ///< of the layout that was asked last
  MemoryCost memory;
};

/// The first thing that a compilation was told of.
std::string firstError(const Compilation &compilation) {
  for (const Diagnostic &said : compilation.diagnostics.sorted())
    if (said.severity == Severity::Error)
      return said.message;
  return "";
}

/// What every layout does at least: the products of a step on one device, in which nothing is computed twice.
struct Least {
  double all = 0, repeated = 0; ///< seconds; of these within repeats
  int64_t params = 0, optimizer = 0;
};

void addProducts(const StepCost &of, const planner::Actions &actions, double times, bool isRepeated, Least &least) {
  for (const planner::Action &action : actions) {
    if (action.kind == planner::Action::Kind::Loop) {
      addProducts(of, action.ahead, times * double(action.trips), true, least);
      addProducts(of, action.body, times * double(action.trips), true, least);
    }
    if (action.kind != planner::Action::Kind::Work)
      continue;
    planner::Work work = of.step.works[action.what];
    using Kind = planner::Work::Kind;
    if (work.kind == Kind::Loop || work.kind == Kind::Kernel)
      continue;
    // shares of a product take no less than their part of it: what each has to read counts for nothing here
    work.bytes = work.added = 0;
    double seconds = of.machine.seconds(work);
    if (auto curve = of.machine.device.curves.find("product"); curve != of.machine.device.curves.end()) {
      double rate = 0;
      for (const auto &[size, reached] : curve->second.points)
        rate = std::max(rate, reached);
      seconds = rate > 0 ? std::min(seconds, work.flops / rate) : 0;
    }
    least.all += times * seconds;
    if (isRepeated)
      least.repeated += times * seconds;
  }
}

Least leastOf(const Trial &trial) {
  Least least;
  addProducts(trial.step, trial.step.step.stages.front(), 1, false, least);
  least.params = trial.memory.params;
  least.optimizer = trial.memory.optimizer;
  return least;
}

/// Seconds that a layout takes at least: its share of the products, and where there are stages what the last one waits
/// until the first micro batch comes and the first until the last has come back.
double boundOf(const Least &least, const LayoutFrame &frame, const LayoutCandidate &candidate) {
  const double ranks = double(frame.samples * frame.tensor * frame.stages * frame.context);
  double bound = least.all / ranks;
  const bool isEven = frame.stageAxis < 0 || !frame.mesh[size_t(frame.stageAxis)].parts.valid();
  const llvm::StringRef schedule = candidate.schedule;
  if (frame.stages > 1 && isEven && schedule != "zero_bubble")
    bound = std::max(bound, least.repeated / ranks *
                                (1 + double(frame.stages - 1) / double(candidate.passes * candidate.chunks)));
  return bound;
}

/// Bytes of a rank at least: parameters and the optimizer's state, cut as far as they can be.
int64_t leastBytes(const Least &least, const LayoutFrame &frame, const LayoutCandidate &candidate) {
  const int64_t parts = frame.tensor * frame.stages * frame.context;
  bool storesOptimizer = candidate.stored > 0, storesParams = candidate.stored > 2;
  int64_t further = 1; // over which axes of other kinds the spec stores something
  for (const MeshAxisSettings &axis : frame.mesh) {
    storesOptimizer |= axis.stored.count("optimizer") > 0;
    storesParams |= axis.stored.count("params") > 0;
    if (!axis.stored.empty() && axis.list.empty())
      further *= axis.size;
  }
  return least.params / parts / (storesParams ? frame.samples * further : 1) +
         least.optimizer / parts / (storesOptimizer ? frame.samples * further : 1);
}

bool isSameButForMemory(const LayoutCandidate &a, const LayoutCandidate &b) {
  return a.frame == b.frame && a.chunks == b.chunks && llvm::StringRef(a.schedule) == b.schedule;
}

class LayoutSearch {
public:
  explicit LayoutSearch(Compilation &compilation) : asking(compilation) {}
  std::shared_ptr<const LayoutChoice> run();

private:
  void refuse(const std::string &why);
  std::vector<planner::Price> ask(const std::vector<size_t> &some);
  void refuseForMemory(const planner::SearchResult &result);
  PlannedLayout priced(size_t candidate, const planner::Price &price) const;

  Compilation &asking;
  std::vector<std::unique_ptr<Trial>> trials; ///< one a thread
  std::optional<LayoutSpace> space;
  std::map<size_t, std::map<std::string, double>> terms; ///< of candidates that were compiled
  CompileOptions options; ///< of a trial
};

void LayoutSearch::refuse(const std::string &why) {
  asking.diagnostics.error(Code::E0314, asking.settings.layoutRange, why);
}

std::vector<planner::Price> LayoutSearch::ask(const std::vector<size_t> &some) {
  std::vector<planner::Price> prices(some.size());
  std::vector<std::map<std::string, double>> found(some.size());
  auto work = [&](size_t thread) {
    Trial &trial = *trials[thread];
    for (size_t i = thread; i < some.size(); i += trials.size()) {
      prices[i] = trial.ask(space->layoutOf(space->candidates[some[i]]));
      if (prices[i].kind != planner::Price::Kind::Refused)
        for (size_t t = 0; t < trial.step.step.terms.size(); ++t)
          found[i][trial.step.step.terms[t]] = trial.step.time.terms[t];
    }
  };
  std::vector<std::thread> threads;
  for (size_t t = 1; t < trials.size() && t < some.size(); ++t)
    threads.emplace_back(work, t);
  work(0);
  for (std::thread &thread : threads)
    thread.join();
  for (size_t i = 0; i < some.size(); ++i)
    if (prices[i].kind != planner::Price::Kind::Refused)
      terms[some[i]] = std::move(found[i]);
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

void LayoutSearch::refuseForMemory(const planner::SearchResult &result) {
  const RunSettings &settings = asking.settings;
  if (result.noRoom.empty()) {
    std::string why = "no layout of all ranks can be compiled";
    if (!result.refused.empty()) {
      const PlannedLayout layout = space->layoutOf(space->candidates[result.refused.front()]);
      Trial again(options);
      again.ask(layout);
      why += "; " + layout.text() + " is refused: " + firstError(again.compilation);
    }
    return refuse(why);
  }
  auto nearest = std::min_element(result.noRoom.begin(), result.noRoom.end(), [](const auto &a, const auto &b) {
    return a.second.bytes != b.second.bytes ? a.second.bytes < b.second.bytes : a.first < b.first;
  });
  refuse("no layout has room: a " + settings.deviceName + " has " + inGigabytes(settings.deviceBytes) +
         ", and the one that takes least, " + space->layoutOf(space->candidates[nearest->first]).text() + ", takes " +
         inGigabytes(nearest->second.bytes) + " a rank");
}

std::shared_ptr<const LayoutChoice> LayoutSearch::run() {
  const auto began = std::chrono::steady_clock::now();
  const RunSettings &settings = asking.settings;
  options.spec = asking.options.spec;
  options.train = asking.train->name.text;
  options.settings = asking.options.settings;
  options.nodeRanks = asking.options.nodeRanks;
  options.pipeline = asking.options.pipeline;
  options.machine = asking.options.machine;
  options.ofCluster = options.machine == Machine::Cpu;
  options.leavesLayoutOpen = options.anyMemory = true;
  options.warns = false;
  const size_t cores = std::max(1u, std::thread::hardware_concurrency());
  bool saysWhere = settings.cluster != nullptr;
  for (const Clause &clause : asking.train->clauses)
    saysWhere |= std::holds_alternative<OnClause>(clause.what);
  auto choice = std::make_shared<LayoutChoice>();
  choice->ranks = saysWhere ? std::max<int64_t>(settings.clusterRanks, 1) : int64_t(cores);
  trials.push_back(std::make_unique<Trial>(options));
  Trial &first = *trials.front();
  if (!first.isGood || !first.compilation.elaborate()) {
    for (const Diagnostic &said : first.compilation.diagnostics.sorted())
      if (said.severity == Severity::Error)
        asking.diagnostics.report(said.code, said.severity, said.range, said.message);
    return nullptr;
  }
  space.emplace(first.compilation, choice->ranks);
  if (space->candidates.empty()) {
    refuse(space->why);
    return nullptr;
  }
  PlannedLayout alone; // one rank, which keeps all, in one pass
  alone.batch = settings.batch;
  const bool isKnown = first.ask(alone).kind != planner::Price::Kind::Refused;
  const Least least = isKnown ? leastOf(first) : Least();
  planner::SearchProblem problem;
  std::vector<LayoutCandidate> roomy;
  int64_t counted = int64_t(space->candidates.size());
  for (const LayoutCandidate &candidate : space->candidates)
    if (!settings.deviceBytes || settings.offload ||
        leastBytes(least, space->frames[candidate.frame], candidate) <= settings.deviceBytes)
      roomy.push_back(candidate);
  const bool isAnyRoomy = !roomy.empty();
  if (isAnyRoomy)
    space->candidates = std::move(roomy);
  for (const LayoutCandidate &candidate : space->candidates)
    problem.bounds.push_back(boundOf(least, space->frames[candidate.frame], candidate));
  problem.needsNoLess = [&](size_t a, size_t b) {
    const LayoutCandidate &lean = space->candidates[a], &other = space->candidates[b];
    return isSameButForMemory(lean, other) && lean.perPass <= other.perPass && lean.stored >= other.stored &&
           (lean.recomputes || !other.recomputes);
  };
  problem.isNoFaster = [&](size_t a, size_t b) {
    const LayoutCandidate &one = space->candidates[a], &other = space->candidates[b];
    return isSameButForMemory(one, other) && one.perPass == other.perPass && one.stored == other.stored &&
           !one.recomputes && other.recomputes;
  };
  problem.ask = [&](const std::vector<size_t> &some) { return ask(some); };
  const size_t threads = std::min<size_t>({cores, 8, space->candidates.size()});
  while (trials.size() < threads)
    trials.push_back(std::make_unique<Trial>(options));
  const planner::SearchResult result = planner::searchBestFirst(problem);
  if (result.fit.empty()) {
    refuseForMemory(result);
    return nullptr;
  }
  choice->counted = counted;
  choice->without = result.without + (counted - result.counted);
  choice->refused = int64_t(result.refused.size());
  choice->cut = result.cut;
  choice->asked = result.asked;
  choice->best = priced(result.fit.front().first, result.fit.front().second);
  constexpr size_t kRunnersUp = 3;
  for (size_t i = 1; i < result.fit.size() && i <= kRunnersUp; ++i)
    choice->runnersUp.push_back(priced(result.fit[i].first, result.fit[i].second));
  choice->seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - began).count();
  return choice;
}

} // namespace

std::shared_ptr<const LayoutChoice> chooseLayout(Compilation &compilation) { return LayoutSearch(compilation).run(); }

} // namespace echelon
