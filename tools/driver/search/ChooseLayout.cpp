// Candidates are compiled up to where arenas are planned, and asked what they take; those are left out that a bound,
// from the model's products alone, or a rule shows to be no faster or to have no room.
#include "tools/driver/search/ChooseLayout.h"

#include "frontend/resolve/MachineOf.h"
#include "passes/cost/StepProgram.h"
#include "planner/search/BestFirst.h"
#include "planner/timeline/Timeline.h"
#include "tools/driver/compile/StepCost.h"
#include "tools/driver/search/LayoutSpace.h"
#include "llvm/Support/Format.h"
#include "llvm/Support/raw_ostream.h"

#include <atomic>
#include <chrono>
#include <cmath>
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
    resolved.checkpoint.directory.clear(); // snapshots are written beside the step
  }

  planner::Price ask(const PlannedLayout &layout, bool evaluates = true) {
    compilation.settings = resolved;
    if (!evaluates) {
      compilation.settings.evaluations.clear();
      compilation.settings.until.reset();
    }
    compilation.settings.mesh = layout.mesh;
    auto isIn = [&](const std::string &name) {
      return llvm::any_of(layout.mesh, [&](const frontend::MeshAxisSettings &axis) { return axis.name == name; });
    };
    llvm::erase_if(compilation.settings.collectives, [&](const frontend::CollectiveSettings &pinned) {
      return !llvm::all_of(pinned.over, isIn); // a part of the mesh alone is asked for, too
    });
    compilation.settings.microBatches = layout.microBatches;
    compilation.settings.batch = layout.batch;
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
  int64_t params = 0, gradients = 0, optimizer = 0;
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
  least.gradients = trial.memory.gradients;
  least.optimizer = trial.memory.optimizer;
  return least;
}

/// Seconds that stages take at least for passes of which each takes one rank `all`, and `repeated` of it in repeats. No
/// stage does less than its share. Where they have equally many iterations, the last one waits for the first forward
/// pass, and, but for zero_bubble, the first one for the last backward pass; a forward pass is at least a fifth of
/// both. Else one micro batch goes through all of them.
double boundOf(double all, double repeated, const LayoutFrame &frame, const LayoutCandidate &candidate) {
  const double stages = double(frame.stages), passes = double(candidate.passes);
  const double shared = passes * all / stages;
  if (frame.stages == 1)
    return shared;
  if (frame.mesh[size_t(frame.stageAxis)].parts.valid()) {
    const double iterations = double(frame.iterations); // the slowest stage has a whole number of them
    const double slowest = std::ceil(iterations / stages) / iterations;
    return std::max({shared, passes * repeated * slowest, candidate.chunks == 1 ? all : 0});
  }
  const double waits = (stages - 1) / double(candidate.chunks);
  constexpr double kForward = 0.2;
  const bool isForwardAlone = llvm::StringRef(candidate.schedule) == "zero_bubble";
  return std::max(shared, repeated / stages * (passes + (isForwardAlone ? kForward : 1) * waits));
}

double boundOf(const Least &least, const LayoutFrame &frame, const LayoutCandidate &candidate) {
  const double ranks = double(frame.samples * frame.tensor * frame.context) * double(candidate.passes);
  return boundOf(least.all / ranks, least.repeated / ranks, frame, candidate);
}

/// Bytes of a rank at least: parameters, their gradients and the optimizer's state, cut as far as they can be.
double leastBytes(const Least &least, const LayoutFrame &frame, const LayoutCandidate &candidate) {
  double parts[] = {1, 1, 1}; // of the optimizer, gradients, parameters
  static const char *const kWhat[] = {"optimizer", "gradients", "params"};
  for (int what = 0; what < 3; ++what) {
    if (candidate.stored > what)
      parts[what] = double(frame.samples);
    for (const MeshAxisSettings &axis : frame.mesh)
      if (axis.stored.count(kWhat[what]))
        parts[what] *= double(axis.size);
  }
  return frame.params *
         (double(least.optimizer) / parts[0] + double(least.gradients) / parts[1] + double(least.params) / parts[2]);
}

/// Seconds of one pass, in which nothing is left out: works and messages that nobody can put off.
struct Pass {
  double all = 0, repeated = 0;
  int64_t activations = 0; ///< bytes
};

void addPass(const StepCost &of, const planner::Actions &actions, double times, bool isRepeated, Pass &pass) {
  using Kind = planner::Action::Kind;
  for (const planner::Action &action : actions) {
    if (action.kind == Kind::Loop) {
      addPass(of, action.ahead, times * double(action.trips), true, pass);
      addPass(of, action.body, times * double(action.trips), true, pass);
      continue;
    }
    double seconds = 0;
    if (action.kind == Kind::Work && of.step.terms[action.term] != "optimizer")
      seconds = of.time.workSeconds[action.what];
    else if (action.kind == Kind::Message && action.ticket < 0 && !of.step.messages[action.what].isOfUpdate)
      seconds = of.time.messageSeconds[action.what];
    pass.all += times * seconds;
    pass.repeated += isRepeated ? times * seconds : 0;
  }
}

class LayoutSearch {
public:
  explicit LayoutSearch(Compilation &compilation) : asking(compilation) {}
  std::shared_ptr<const LayoutChoice> run();

private:
  void refuse(const std::string &why);
  std::vector<planner::Price> ask(const std::vector<size_t> &some);
  std::vector<double> tighten(const std::vector<size_t> &some);
  void setMemory(planner::SearchProblem &problem);
  template <typename Work> void onAll(size_t count, const Work &work);
  size_t leanest() const;
  void refuseForMemory(const planner::SearchResult &result);
  PlannedLayout priced(size_t candidate, const planner::Price &price) const;

  Compilation &asking;
  std::vector<std::unique_ptr<Trial>> trials; ///< one a thread
  std::optional<LayoutSpace> space;
  std::map<std::tuple<std::string, bool, int64_t>, std::optional<Pass>> passes; ///< none: it is refused
  std::map<size_t, std::map<std::string, double>> terms;                        ///< of candidates that were compiled
  CompileOptions options;                                                       ///< of a trial
  Least theLeast;
};

void LayoutSearch::refuse(const std::string &why) {
  asking.diagnostics.error(Code::E0314, asking.settings.layoutRange, why);
}

/// Each thread has its own trial, and takes what comes next.
template <typename Work> void LayoutSearch::onAll(size_t count, const Work &work) {
  std::atomic<size_t> next{0};
  auto take = [&](Trial &trial) {
    for (size_t i = next++; i < count; i = next++)
      work(trial, i);
  };
  std::vector<std::thread> threads;
  for (size_t t = 1; t < trials.size() && t < count; ++t)
    threads.emplace_back([&take, trial = trials[t].get()] { take(*trial); });
  take(*trials.front());
  for (std::thread &thread : threads)
    thread.join();
}

/// What a rank does in a pass of so many samples is the same whatever the number of ranks for samples and stages.
std::vector<double> LayoutSearch::tighten(const std::vector<size_t> &some) {
  auto keyOf = [&](size_t i) {
    const LayoutCandidate &candidate = space->candidates[i];
    return std::tuple(space->frames[candidate.frame].core, candidate.recomputes, candidate.perPass);
  };
  // stages share out what is kept for the derivative; where that has no room, more samples have none
  auto isWithoutRoom = [&](size_t i) {
    const LayoutCandidate &candidate = space->candidates[i];
    const LayoutFrame &frame = space->frames[candidate.frame];
    auto end = passes.upper_bound(keyOf(i));
    // in the first stage as many micro batches are under way as there are stages; what each keeps is at least what
    // recomputation spares
    auto kept = passes.find(keyOf(i)), spared = passes.find(std::tuple(frame.core, true, candidate.perPass));
    if (!candidate.recomputes && frame.stages > 1 && kept != passes.end() && spared != passes.end() && kept->second &&
        spared->second && !frame.mesh[size_t(frame.stageAxis)].parts.valid() &&
        leastBytes(theLeast, frame, candidate) + double(kept->second->activations - spared->second->activations) *
                                                     double(std::min(candidate.passes, frame.stages)) /
                                                     double(frame.stages) >
            double(asking.settings.deviceBytes))
      return true;
    for (auto it = passes.lower_bound(std::tuple(frame.core, candidate.recomputes, 0)); it != end; ++it)
      if (it->second &&
          leastBytes(theLeast, frame, candidate) + double(it->second->activations) / double(frame.stages) >
              double(asking.settings.deviceBytes))
        return true;
    return false;
  };
  const bool isShort = asking.settings.deviceBytes && !asking.settings.offload;
  std::vector<size_t> unknown;
  for (size_t i : some)
    if (!(isShort && isWithoutRoom(i)) && passes.emplace(keyOf(i), std::nullopt).second)
      unknown.push_back(i);
  std::vector<std::optional<Pass>> found(unknown.size());
  onAll(unknown.size(), [&](Trial &trial, size_t i) {
    if (trial.ask(space->coreOf(space->candidates[unknown[i]]), false).kind == planner::Price::Kind::Refused)
      return;
    found[i].emplace();
    addPass(trial.step, trial.step.step.stages.front(), 1, false, *found[i]);
    found[i]->activations = trial.memory.activations;
  });
  for (size_t i = 0; i < unknown.size(); ++i)
    passes[keyOf(unknown[i])] = found[i];
  std::vector<double> bounds;
  for (size_t i : some) {
    const LayoutCandidate &candidate = space->candidates[i];
    if (isShort && isWithoutRoom(i)) {
      bounds.push_back(std::numeric_limits<double>::infinity());
      continue;
    }
    const std::optional<Pass> &pass = passes[keyOf(i)];
    bounds.push_back(pass ? boundOf(pass->all, pass->repeated, space->frames[candidate.frame], candidate) : 0);
  }
  return bounds;
}

std::vector<planner::Price> LayoutSearch::ask(const std::vector<size_t> &some) {
  std::vector<planner::Price> prices(some.size());
  std::vector<std::map<std::string, double>> found(some.size());
  onAll(some.size(), [&](Trial &trial, size_t i) {
    prices[i] = trial.ask(space->layoutOf(space->candidates[some[i]]));
    if (prices[i].kind != planner::Price::Kind::Refused)
      for (size_t t = 0; t < trial.step.step.terms.size(); ++t)
        found[i][trial.step.step.terms[t]] = trial.step.time.terms[t];
  });
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

/// That which seems to take least, where none was compiled.
size_t LayoutSearch::leanest() const {
  auto weight = [&](size_t i) {
    const LayoutCandidate &candidate = space->candidates[i];
    return std::tuple(leastBytes(theLeast, space->frames[candidate.frame], candidate), candidate.perPass,
                      !candidate.recomputes);
  };
  size_t lean = 0;
  for (size_t i = 1; i < space->candidates.size(); ++i)
    if (weight(i) < weight(lean))
      lean = i;
  return lean;
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

/// Which candidates need more memory than others: those with more samples in a pass, with less that is stored in cuts,
/// that keep what others recompute.
void LayoutSearch::setMemory(planner::SearchProblem &problem) {
  using Group = std::tuple<size_t, int64_t, std::string>;
  std::map<Group, size_t> groups;
  std::map<std::tuple<size_t, int, bool>, size_t> chains; // by group
  for (size_t i = 0; i < space->candidates.size(); ++i) {
    const LayoutCandidate &candidate = space->candidates[i];
    const Group key(candidate.frame, candidate.chunks, candidate.schedule);
    const size_t group = groups.emplace(key, groups.size()).first->second;
    problem.groups.push_back(group);
    if (!asking.settings.deviceBytes)
      continue;
    const auto chain = chains.emplace(std::tuple(group, candidate.stored, candidate.recomputes), chains.size());
    if (chain.second)
      problem.chains.emplace_back();
    problem.chains[chain.first->second].push_back(i);
    if (problem.leanest.size() <= group)
      problem.leanest.push_back(i);
    const LayoutCandidate &least = space->candidates[problem.leanest[group]];
    if (std::tuple(-candidate.perPass, candidate.stored, candidate.recomputes) >
        std::tuple(-least.perPass, least.stored, least.recomputes))
      problem.leanest[group] = i;
  }
  for (std::vector<size_t> &chain : problem.chains)
    std::stable_sort(chain.begin(), chain.end(),
                     [&](size_t a, size_t b) { return space->candidates[a].perPass < space->candidates[b].perPass; });
  problem.needsNoLess = [this](size_t a, size_t b) {
    const LayoutCandidate &lean = space->candidates[a], &other = space->candidates[b];
    return lean.perPass <= other.perPass && lean.stored >= other.stored && (lean.recomputes || !other.recomputes);
  };
}

std::shared_ptr<const LayoutChoice> LayoutSearch::run() {
  const auto began = std::chrono::steady_clock::now();
  const RunSettings &settings = asking.settings;
  options.spec = asking.options.spec;
  options.train = asking.train->name.text;
  options.settings = asking.options.settings;
  options.nodeRanks = asking.options.nodeRanks;
  options.pipeline = asking.options.pipeline;
  options.machineFile = asking.options.machineFile;
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
  theLeast = least;
  planner::SearchProblem problem;
  std::vector<LayoutCandidate> roomy;
  int64_t counted = int64_t(space->candidates.size());
  for (const LayoutCandidate &candidate : space->candidates)
    if (!settings.deviceBytes || settings.offload ||
        leastBytes(least, space->frames[candidate.frame], candidate) <= double(settings.deviceBytes))
      roomy.push_back(candidate);
  const bool isAnyRoomy = !roomy.empty();
  if (isAnyRoomy)
    space->candidates = std::move(roomy);
  for (const LayoutCandidate &candidate : space->candidates)
    problem.bounds.push_back(boundOf(least, space->frames[candidate.frame], candidate));
  setMemory(problem);
  problem.isNoFaster = [&](size_t a, size_t b) {
    const LayoutCandidate &one = space->candidates[a], &other = space->candidates[b];
    return one.perPass == other.perPass && one.stored == other.stored && !one.recomputes && other.recomputes;
  };
  problem.tighten = [&](const std::vector<size_t> &some) { return tighten(some); };
  problem.ask = [&](const std::vector<size_t> &some) { return ask(some); };
  const size_t threads = std::min<size_t>({cores, 8, space->candidates.size()});
  while (trials.size() < threads)
    trials.push_back(std::make_unique<Trial>(options));
  planner::SearchResult result = planner::searchBestFirst(problem);
  if (result.fit.empty() && result.noRoom.empty() && result.without > 0) {
    const size_t lean = leanest();
    const planner::Price price = ask({lean}).front();
    if (price.kind != planner::Price::Kind::Refused)
      (price.kind == planner::Price::Kind::Fits ? result.fit : result.noRoom).push_back({lean, price});
  }
  if (result.fit.empty()) {
    refuseForMemory(result);
    return nullptr;
  }
  choice->counted = counted;
  choice->without = result.without + (counted - result.counted);
  choice->refused = int64_t(result.refused.size());
  choice->cut = result.cut;
  choice->fit = int64_t(result.fit.size());
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
