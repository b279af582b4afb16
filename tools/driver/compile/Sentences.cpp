#include "tools/driver/compile/Sentences.h"

#include "ir/ech/Decimal.h"
#include "tools/driver/compile/PolicyCost.h"

#include "llvm/ADT/STLExtras.h"

#include <cstdio>
#include <map>

using namespace echelon::frontend;

namespace echelon {

namespace {
std::string sentenceOf(const CompressSettings &c, const std::optional<SyncSettings> &sync) {
  std::string over;
  for (const std::string &axis : c.over)
    over += (over.empty() ? "" : ", ") + axis;
  const std::string residual = c.feedback ? ", and what packing lost is added to what it packs next" : "";
  if (c.ofDeltas)
    return "compress deltas over " + over + " with " + c.method() +
           ": what workers meet with is the mean of what came of each one's way from where they last met" + residual;
  if (sync && !sync->isLocal()) {
    const bool isInside =
        llvm::any_of(c.over, [&](const std::string &axis) { return !llvm::is_contained(sync->over, axis); });
    return "compress gradients over " + over + " with " + c.method() + ": the mean is of what came of what each " +
           (isInside ? "rank of a worker" : "worker") + " hands in to an update" + residual;
  }
  return "compress gradients over " + over + " with " + c.method() +
         ": the sum over these ranks is of what came of each one's own part" +
         (c.feedback ? ", and what packing lost is added to that of the next step" : "");
}

std::string sentenceOfLocal(const SyncSettings &s) {
  std::string text = "sync " + s.text() + ": " + std::to_string(s.workers) +
                     " workers train by themselves, each on its own samples; after every " + std::to_string(s.every) +
                     (s.every == 1 ? " step" : " steps") +
                     " and the last one all go on with the mean of their parameters";
  if (!s.outer.empty())
    text += ", or what " + s.outer + " makes of the step from the last such place to it";
  return text + "; what their optimizers keep stays their own";
}

PolicyTime timeOf(const SyncSettings &s) {
  return expectedTime(runtime::policyNamed(s.policy)->kind, s.k, s.workers, delaysOf(s));
}

/// Expected times beside those of `every step`, in the delay's unit; where arrivals are real, in mini-batches whose
/// times are exponential.
std::string timesOf(const SyncSettings &s, const PolicyTime &policy) {
  const PolicyTime all = expectedTime(runtime::SyncPolicy::EveryStep, s.workers, s.workers, delaysOf(s));
  auto pair = [](const PolicyTime &time) {
    char text[80];
    std::snprintf(text, sizeof text, "%.3g an update, %.3g a mini-batch that is applied", time.update, time.miniBatch);
    return std::string(text);
  };
  return std::string("expected times") +
         (s.delay.empty() ? ", in those of a mini-batch, were they exponential: " : ", in units of the delay: ") +
         pair(policy) + (s.staleness ? " (without a limit on staleness)" : "") + "; of every step " + pair(all);
}

std::string sentenceOf(const SyncSettings &s) {
  static const std::map<std::string, const char *> does = {
      {"k_sync", "who finishes first is in, the others stop, and their samples are lost"},
      {"k_batch_sync", "who finishes takes more samples at the same parameters; at the last one the others stop, and "
                       "their samples are lost"},
      {"k_async", "who finishes waits for the update, and goes on at the newest parameters; the others go on with what "
                  "they have read"},
      {"k_batch_async", "who finishes goes on at the newest parameters at once"}};
  const PolicyTime time = timeOf(s);
  std::string text = "sync " + s.text() + ": an update is the mean of the gradients of " + std::to_string(s.k) +
                     (s.k == 1 ? " mini-batch; " : " mini-batches; ") + std::to_string(s.workers) + " workers; " +
                     does.at(s.policy);
  if (s.isAsync()) {
    char number[40];
    std::snprintf(number, sizeof(number), "%.3g", time.staleness);
    text += std::string("; the mean staleness is ") + number +
            (s.staleness ? ", and none is above " + std::to_string(*s.staleness) : "") +
            (s.damps ? "; gradients count 1 / max(1, their staleness)" : "") +
            "; before evaluations, snapshots and the end all workers meet, and drop the work in hand";
  }
  return text + (s.delay.empty() ? "" : "; arrivals are drawn") + "; " + timesOf(s, time);
}

} // namespace

std::vector<std::string> sentencesOfPrecision(const RunSettings &settings) {
  std::vector<std::string> found;
  const auto &[compute, params, reduce, keep] = settings.precision;
  const std::string parameters = params.empty() ? "parameters, " : "";
  if (compute == "tf32")
    found.push_back("precision tf32: products take their operands rounded to 10 bits of mantissa, with sums in fp32; "
                    "all else is fp32");
  else if (compute == "fp8")
    found.push_back("precision fp8: dots take E4M3, and gradients in E5M2, each tensor scaled by the power of two that "
                    "its largest number leaves room for, with sums in fp32; the last before a loss, convolutions and "
                    "attention take bf16; what is kept, carried and sent between them is rounded to bf16; " +
                    parameters + "norms, softmax, losses and the update are fp32");
  else if (!compute.empty())
    found.push_back("precision " + compute + ": products of " + compute +
                    " with sums in fp32; what is kept, carried and sent between them is rounded to it; " + parameters +
                    "norms, softmax, losses and the update are fp32");
  if (!params.empty())
    found.push_back("params " + params + ": an update's result is rounded to " + params +
                    ", so that what is below 2^-" + (params == "bf16" ? "9" : "12") + " of a weight is lost");
  if (!reduce.empty() && settings.ranks() > 1)
    found.push_back("reduce " + reduce + ": what ranks sum up of forward and backward pass travels rounded to " +
                    reduce + ", and is added up in fp32");
  if (!keep.empty() && !compute.empty()) {
    std::string patterns;
    for (const Pattern &pattern : keep)
      patterns += (patterns.empty() ? "" : ", ") + pattern.text;
    found.push_back("keep (" + patterns +
                    ") fp32: products that read these parameters, and their derivatives, take "
                    "and give fp32");
  }
  if (settings.lossScale.isDynamic)
    found.push_back("scale dynamic: derivatives are those of the loss times S, and gradients are divided by it at the "
                    "step's end; S starts at " +
                    std::to_string(settings.lossScale.start) +
                    "; above 1, a step whose gradients are not finite changes nothing and halves it; 2000 good steps "
                    "in a row double it, up to 16777216");
  else if (settings.lossScale.start)
    found.push_back("scale " + std::to_string(settings.lossScale.start) + ": derivatives are those of the loss times " +
                    std::to_string(settings.lossScale.start) + ", and gradients are divided by it at the step's end");
  return found;
}

std::vector<std::string> sentencesOfClauses(const RunSettings &settings) {
  std::vector<std::string> found;
  auto number = [](double x) { return shortestDecimal(x); };
  for (const OptimizerLine &line : settings.optimizers)
    if (line.rule == "lamb")
      found.push_back(
          "optimize lamb: the step of each weight is Adam's times |w| / |step|, norms of one tensor, and that "
          "of gains and biases Adam's");
  if (settings.compress)
    found.push_back(sentenceOf(*settings.compress, settings.sync));
  if (settings.sync)
    found.push_back(settings.sync->isLocal() ? sentenceOfLocal(*settings.sync) : sentenceOf(*settings.sync));
  if (settings.averageDecay)
    found.push_back("average ema(" + number(*settings.averageDecay) +
                    "): after update t, evaluations read d a + (1 - d) w "
                    "of each parameter w and its average a so far, d = min(" +
                    number(*settings.averageDecay) + ", (1 + t) / (10 + t))");
  if (settings.until)
    found.push_back("until " + settings.until->text() + ": the run ends at the first evaluation that meets it" +
                    (settings.hasLength() ? ", or at its length" : ""));
  if (settings.onNan.action == OnNanClause::Skip)
    found.push_back("on nan skip: a step whose loss or gradients are not finite changes nothing, up to " +
                    std::to_string(settings.onNan.times) + " in a row; schedule and data go on");
  if (settings.onNan.action == OnNanClause::RollBack)
    found.push_back("on nan roll back: after a step whose loss or gradients are not finite the newest snapshot goes on "
                    "with the data behind it, up to " +
                    std::to_string(settings.onNan.times) + " times from one snapshot");
  return found;
}

} // namespace echelon
