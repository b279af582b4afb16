#include "tools/driver/compile/PolicyCost.h"

#include "runtime/sync/Arrivals.h"
#include "tools/driver/compile/StepCost.h"
#include "tools/driver/history/MeasuredDelays.h"
#include "llvm/Support/Format.h"
#include "llvm/Support/raw_ostream.h"

#include <algorithm>
#include <cmath>

namespace echelon {

using frontend::RunSettings;
using frontend::SyncSettings;

namespace {
/// What the order of arrivals says that the program goes by, over many updates.
struct Drawn {
  double update = 0;    ///< on the clock of arrivals
  double most = 0;      ///< mini-batches of the worker that has most in an update
  double staleness = 0; ///< of a gradient
};

/// Nothing: too many gradients of too many workers to go through.
std::optional<Drawn> drawn(const SyncSettings &sync, const Delays &delays, uint64_t seed) {
  runtime::SyncPolicy policy;
  policy.kind = runtime::policyNamed(sync.policy)->kind;
  policy.k = sync.k;
  policy.workers = sync.workers;
  policy.staleness = sync.staleness.value_or(-1);
  if (!delays.constants.empty())
    policy.delay = {runtime::Delay::Each, delays.constants};
  else
    policy.delay = {runtime::Delay::Shifted, {delays.shift, delays.mean}};
  constexpr double kMostSteps = 2e7; // the next one to arrive is looked for among all workers
  constexpr int64_t kMost = 20000, kLeast = 500;
  const double perUpdate = double(std::max(sync.k, sync.workers)) * double(sync.workers);
  const auto updates = int64_t(std::min(kMostSteps / perUpdate, double(kMost)));
  if (updates < kLeast)
    return std::nullopt;
  const auto arrivals = runtime::drawnArrivals(policy, seed, 0, {});
  Drawn sum;
  std::vector<int64_t> own;
  for (int64_t version = 0; version < updates; ++version) {
    const runtime::Update update = arrivals->next(version);
    own.assign(size_t(sync.workers), 0);
    for (const runtime::HandedIn &gradient : update.gradients) {
      ++own[size_t(gradient.worker)];
      sum.staleness += double(version - gradient.read) / double(updates * sync.k);
    }
    sum.most += double(*std::max_element(own.begin(), own.end())) / double(updates);
    sum.update = update.time / double(version + 1);
  }
  return sum;
}

Delays equalDelays(int64_t workers) { return Delays::each(std::vector<double>(size_t(workers), 1)); }

/// Where it is known, from Dutta et al. 2018.
std::string formulaOf(const SyncSettings &sync, bool isExact) {
  if (!isExact)
    return "simulated: no closed form is known";
  if (sync.policy == "k_sync")
    return "E[X_(k:P)], the k-th of P workers";
  if (sync.policy == "k_async")
    return sync.k == 1 ? "1 / sum of 1 / E[X] over P workers, renewal theorem" : "E[X_(k:P)], the k-th of P workers";
  if (sync.policy == "k_batch_async")
    return "k / sum of 1 / E[X] over P workers, renewal theorem";
  return "the k-th gradient of P workers that go on";
}

/// By the policy's own rules, under a limit on staleness, of which no formula knows.
std::optional<Drawn> limited(const RunSettings &settings, const Delays &delays) {
  return settings.sync->staleness ? drawn(*settings.sync, delays, settings.seed) : std::nullopt;
}

ExpectedStep expectedOf(const RunSettings &settings, const Delays &delays, const StepCost &step) {
  const SyncSettings &sync = *settings.sync;
  ExpectedStep made;
  made.samples = double(settings.samplesAStep());
  if (sync.isLocal()) {
    made.miniBatches = expectedLocalTime(sync.every, sync.workers, delays);
    made.formula = "E[max over P workers of the sum of H mini-batches] / H, H = " + std::to_string(sync.every);
  } else if (const auto events = limited(settings, delays)) {
    made.miniBatches = events->update;
    made.formula = formulaOf(sync, false);
  } else {
    const PolicyTime time = expectedTime(runtime::policyNamed(sync.policy)->kind, sync.k, sync.workers, delays);
    made.miniBatches = time.update;
    made.formula = formulaOf(sync, time.exact) + (sync.staleness ? ", without the limit on staleness" : "");
  }
  made.seconds = made.miniBatches * step.miniBatch + step.update;
  return made;
}

/// The same spec where all wait for all: its own step, whose mini-batch takes as long as that of the slowest.
std::optional<ExpectedStep> everyStepOf(const SyncSettings &sync, const Delays &delays, const StepCost &step,
                                        CompileOptions options, std::string &refused) {
  if (step.ranks == 1) // one rank works for all: nobody waits
    return std::nullopt;
  options.everyStep = true;
  options.warns = false;
  Compilation compilation(options);
  if (!compilation.parse() || !compilation.resolve() || !compilation.elaborate() || !compilation.lower(Stage::Shaped)) {
    for (const frontend::Diagnostic &said : compilation.diagnostics.sorted())
      if (said.severity == frontend::Severity::Error && refused.empty())
        refused = said.message;
    return std::nullopt;
  }
  ProgramCost cost = programCost(*compilation.module);
  const StepCost all = stepCost(compilation, 0, cost);
  ExpectedStep made;
  made.miniBatches = expectedTime(SyncPolicy::EveryStep, sync.workers, sync.workers, delays).update;
  made.seconds = all.time.seconds + (made.miniBatches - 1) * step.miniBatch;
  made.samples = double(compilation.settings.samplesAStep());
  made.formula = "E[X_(P:P)], the slowest of P workers";
  return made;
}
} // namespace

Delays delaysOf(const SyncSettings &s) {
  if (s.delay == "each")
    return Delays::each(s.delayNumbers);
  if (s.delay == "shifted")
    return Delays::shifted(s.delayNumbers[0], s.delayNumbers[1]);
  return Delays::exponential(s.delay.empty() ? 1 : s.delayNumbers[0]);
}

double miniBatchesInTurn(const RunSettings &settings) {
  const SyncSettings &sync = *settings.sync;
  if (settings.ranks() == 1) // works for all
    return double(sync.k);
  if (sync.isLocal())
    return 1;
  if (!sync.delay.empty()) {
    if (!sync.isBatch())
      return 1;
    const auto events = drawn(sync, delaysOf(sync), settings.seed);
    return events ? events->most : std::max(1.0, double(sync.k) / double(sync.workers));
  }
  const Delays equal = equalDelays(sync.workers);
  if (const auto events = limited(settings, equal))
    return events->update;
  return expectedTime(runtime::policyNamed(sync.policy)->kind, sync.k, sync.workers, equal).update;
}

bool policyCost(const Compilation &compilation, const StepCost &step, const std::string &trace,
                std::optional<PolicyCost> &policy, std::string &why) {
  const RunSettings &settings = compilation.settings;
  MeasuredDelays measured;
  if (!trace.empty() && !readDelays(trace, settings, measured, why))
    return false;
  if (!settings.sync)
    return true;
  const SyncSettings &sync = *settings.sync;
  const bool isStated = !sync.delay.empty();
  const Delays delays = !trace.empty() ? measured.delays : isStated ? delaysOf(sync) : equalDelays(sync.workers);
  PolicyCost &made = policy.emplace();
  made.policy = sync.text();
  made.delays = !trace.empty() ? measured.text : isStated ? "as drawn" : "none: all workers take equally long";
  made.isDrawn = isStated;
  made.isLocal = sync.isLocal();
  made.miniBatch = step.miniBatch;
  made.update = step.update;
  made.inTurn = step.miniBatches;
  made.own = expectedOf(settings, delays, step);
  if (const auto events = limited(settings, delays))
    made.staleness = events->staleness;
  else if (!sync.isLocal())
    made.staleness = expectedTime(runtime::policyNamed(sync.policy)->kind, sync.k, sync.workers, delays).staleness;
  made.everyStep = everyStepOf(sync, delays, step, compilation.options, made.refused);
  return true;
}

std::string PolicyCost::text() const {
  std::string text;
  llvm::raw_string_ostream os(text);
  auto line = [&](const char *name, const ExpectedStep &step) {
    os << "  " << name << inTime(step.seconds)
       << llvm::format(" a step, %.0f samples/s: %.3g of a mini-batch", step.samples / step.seconds, step.miniBatches);
    if (!step.formula.empty())
      os << ", " << step.formula;
    os << "\n";
  };
  os << "sync " << policy << "\n  a mini-batch takes " << inTime(miniBatch)
     << (isLocal ? " with its worker's update, a step's part of a meeting " : ", an update ") << inTime(update)
     << "; delays, by that mini-batch: " << delays << "\n";
  line("this policy  ", own);
  if (everyStep)
    line("every step   ", *everyStep);
  else if (!refused.empty())
    os << "  every step   no plan: " << refused << "\n";
  if (staleness > 0)
    os << llvm::format("  staleness of a gradient in the mean: %.3g updates\n", staleness);
  if (isDrawn)
    os << "  no clock on the wall waits for delays that are drawn: the step above is what the program takes\n";
  return text;
}

} // namespace echelon
