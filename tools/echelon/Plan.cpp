// echelon plan SPEC [OTHER] [--json]: what a step takes, stores, communicates and decays, read off the program that
// would run.
#include "passes/cost/ProgramCost.h"
#include "tools/driver/compile/PolicyCost.h"
#include "tools/driver/compile/RecomputeCost.h"
#include "tools/driver/compile/Sentences.h"
#include "tools/driver/compile/StepTrace.h"
#include "tools/driver/compile/WeightDecay.h"
#include "tools/driver/history/TimeToTarget.h"
#include "tools/echelon/ChoiceJson.h"
#include "tools/echelon/Commands.h"
#include "tools/echelon/HistoryJson.h"
#include "tools/echelon/Options.h"
#include "tools/echelon/PlanDifference.h"
#include "tools/echelon/StepJson.h"

#include <cerrno>
#include <cstring>
#include <fstream>
#include <iostream>
#include <memory>
#include <nlohmann/json.hpp>

namespace echelon {

namespace {
struct PlanOptions : CompileOptions {
  bool json = false;
  std::string write;                // the explicit spec's file; empty: none
  std::string trace;                // the predicted step's file; empty: none
  std::string other;                // a second spec, which is compared; empty: none
  std::string otherTrain;           // its train block; empty: the same name
  std::string delays;               // a trace of a run, whose ranks tell how unequal mini-batches are; empty: none
  std::vector<std::string> history; // logs of other runs; none: `until` is not looked at
};

nlohmann::ordered_json toJson(const std::vector<MessageCost> &costs) {
  nlohmann::ordered_json messages = nlohmann::ordered_json::array();
  for (const MessageCost &m : costs)
    messages.push_back({{"op", m.op},
                        {"axis", m.axis},
                        {"bytes", m.bytes},
                        {"algorithm", m.algorithm},
                        {"choice", m.choice},
                        {"count", m.count},
                        {"time_s", m.seconds},
                        {"phase", m.phase},
                        {"place", m.place},
                        {"reason", m.reason}});
  return messages;
}

nlohmann::ordered_json toJson(const Compilation &compilation, const std::vector<std::string> &mathematics,
                              const ProgramCost &plan, const std::vector<LineDecay> &decay,
                              const RecomputeCost &recompute, const StepCost &step,
                              const std::optional<SnapshotChoice> &snapshots) {
  nlohmann::ordered_json mesh = nlohmann::ordered_json::object(), lines = nlohmann::ordered_json::array();
  for (const frontend::MeshAxisSettings &axis : compilation.settings.mesh)
    mesh[axis.name] = axis.size;
  for (const LineDecay &entry : decay)
    lines.push_back({{"place", entry.place},
                     {"optimizer", entry.optimizer},
                     {"decay", entry.line->decay},
                     {"takes", entry.decayed},
                     {"leaves", entry.spared}});
  const MemoryCost &memory = plan.memory;
  const std::optional<bool> fits = step.fits(memory.total - plan.copyBytes); // snapshots are written without it, too
  nlohmann::ordered_json made = {
      {"train", compilation.settings.name},
      {"mesh", mesh},
      {"batch", compilation.settings.batch},
      {"micro_batch", compilation.settings.batch / compilation.settings.microBatches},
      {"step_time_s", step.time.seconds},
      {"tokens_per_s", step.tokensPerSecond()},
      {"samples_per_s", step.samplesPerSecond()},
      {"mfu", step.peak > 0 ? nlohmann::ordered_json(step.utilisation()) : nlohmann::ordered_json()},
      {"machine", step.measuredIn.empty()
                      ? nlohmann::ordered_json(step.machine.isTypical ? "typical" : step.machine.name)
                      : nlohmann::ordered_json({{"file", frontend::printable(step.measuredIn)},
                                                {"measured", step.machine.measured},
                                                {"spread", step.machine.spread}})},
      {"outside", step.outside()},
      {"bubble_fraction", step.time.bubble},
      {"fits", fits ? nlohmann::ordered_json(*fits) : nlohmann::ordered_json()},
      {"time", timeJson(step)},
      {"data_missing", compilation.missingData},
      {"memory_bytes",
       {{"params", memory.params},
        {"gradients", memory.gradients},
        {"optimizer", memory.optimizer},
        {"activations", memory.activations},
        {"buffers", memory.buffers},
        {"total", memory.total}}},
      {"arena_bytes",
       {{"state", plan.stateBytes}, {"input", plan.inputBytes}, {"work", plan.workBytes}, {"copy", plan.copyBytes}}},
      {"recompute",
       {{"policy", recompute.policy},
        {"kept", recompute.kept},
        {"operations_again", recompute.operationsAgain},
        {"work_bytes", recompute.workBytes},
        {"work_bytes_of_none", recompute.workBytesOfNone}}},
      {"collectives", toJson(plan.messages)},
      {"weight_decay", lines},
      {"mathematics",
       mathematics.empty() ? nlohmann::ordered_json("sequential") : nlohmann::ordered_json(mathematics)}};
  if (compilation.recomputeChoice)
    made["recompute"]["auto"] = choiceJson(*compilation.recomputeChoice);
  if (const auto &offload = plan.offload)
    made["offload"] = {{"to", offload->directory.empty() ? "host" : frontend::printable(offload->directory)},
                       {"bytes", offload->bytes},
                       {"piece_bytes", offload->piece},
                       {"resident_bytes", offload->resident()},
                       {"host_bytes", offload->ofHost()}};
  else if (compilation.settings.offload)
    made["offload"] = {{"to", "host"},
                       {"bytes", 0},
                       {"piece_bytes", 0},
                       {"resident_bytes", memory.optimizer},
                       {"host_bytes", memory.optimizer}};
  made["checkpoint_interval_s"] =
      snapshots ? nlohmann::ordered_json(snapshots->everySeconds) : nlohmann::ordered_json();
  if (snapshots)
    made["checkpoint"] = choiceJson(*snapshots);
  if (!plan.buckets.empty())
    made["buckets"] = plan.buckets;
  if (plan.meetsEvery)
    made["meetings"] = {{"every", plan.meetsEvery}, {"collectives", toJson(plan.meetingMessages)}};
  if (const auto &pipeline = plan.pipeline)
    made["pipeline"] = {{"over", pipeline->over},
                        {"axis", pipeline->axis},
                        {"schedule", pipeline->schedule},
                        {"stages", pipeline->stages},
                        {"iterations", pipeline->iterations},
                        {"micro_batches", pipeline->micro},
                        {"bubble", pipeline->bubble}};
  if (plan.pipeline && !plan.pipeline->counts.empty())
    made["pipeline"]["counts"] = plan.pipeline->counts;
  if (plan.pipeline)
    made["pipeline"]["busy_s"] = step.time.busy;
  if (compilation.options.chosen)
    made["alternatives"] = choiceJson(*compilation.options.chosen);
  made["work"] = workJson(step.step, step.time);
  return made;
}

std::string mathematicsText(const std::string &title, const std::vector<std::string> &mathematics) {
  std::string text = mathematics.empty() ? "" : title + "\n";
  for (const std::string &what : mathematics)
    text += "  " + frontend::printable(what) + "\n";
  return text;
}

std::string recomputeText(const RecomputeCost &recompute) {
  const std::string sentence = recompute.sentence();
  return sentence.empty() ? "" : frontend::printable(sentence) + "\n";
}

std::string choiceText(const Compilation &compilation) {
  return compilation.recomputeChoice ? frontend::printable(compilation.recomputeChoice->text(), frontend::Lines::Kept)
                                     : "";
}

std::string offloadText(const Compilation &compilation, const ProgramCost &plan) {
  return compilation.settings.offload && !plan.offload
             ? "offload optimizer to host: this program computes in the host's memory, where the optimizer's state is: "
               "nothing moves\n"
             : "";
}

/// The spec with every choice of the layout in it. False: it has been said why.
bool writeSpec(const Compilation &compilation, const std::string &file) {
  if (compilation.wouldOverwrite(file))
    return false;
  const auto &choice = compilation.options.chosen;
  const frontend::Train &train = *compilation.train;
  const std::string text = choice ? withChoice(compilation.sources, train, *choice)
                                  : std::string(compilation.sources.text(train.range.file));
  if ((std::ofstream(file) << text).flush())
    return true;
  std::cerr << "echelon: cannot write " << frontend::quoted(file) << "\n";
  return false;
}

/// The predicted step as trace events. False: it has been said why.
bool writeTrace(const Compilation &compilation, const StepCost &step, const StepRecord &told, const std::string &file) {
  if (compilation.settings.sync) {
    std::cerr << "echelon: --trace shows a step that all ranks do together; under a sync policy workers go at their "
                 "own pace\n";
    return false;
  }
  if (compilation.wouldOverwrite(file))
    return false;
  std::ofstream stream(file);
  printTrace(step, told, stream);
  if (stream.flush())
    return true;
  std::cerr << "echelon: cannot write " << frontend::quoted(file) << ": " << std::strerror(errno) << "\n";
  return false;
}

std::string traceText(const StepRecord &told, const std::string &file) {
  return "trace of the step in " + frontend::printable(file) +
         (told.record.isFull() ? ", of its first " + std::to_string(planner::Record::kMost) + " events" : "") +
         ": ui.perfetto.dev opens it\n";
}

/// What is printed of one spec; as text or as JSON.
struct Printed {
  std::string text;
  nlohmann::ordered_json json;
};

/// Nothing: what is wrong has been printed, and `exitCode` says it.
std::optional<Printed> planned(const PlanOptions &options, bool asJson, int &exitCode) {
  Compilation compilation(options);
  if (std::string why; !compilation.findMachine(why)) {
    std::cerr << "echelon: the measured machine " << frontend::quoted(compilation.hereFile) << ": " << why
              << (why.empty() || why.back() != '\n' ? "\n" : "");
    exitCode = Usage;
    return std::nullopt;
  }
  std::vector<std::string> mathematics, ofClauses;
  double products = 0;
  bool good = compilation.parse() && compilation.resolve() && compilation.elaborate();
  if (good) {
    mathematics = compilation.otherMathematics();
    ofClauses = sentencesOfClauses(compilation.settings);
    products = stepProducts(*compilation.module);
    good = compilation.lower(Stage::Shaped);
  }
  compilation.printDiagnostics();
  if (!good) {
    exitCode = SpecWrong;
    return std::nullopt;
  }
  ProgramCost made = programCost(*compilation.module, !compilation.settings.checkpoint.directory.empty());
  const std::vector<LineDecay> decay = decayOf(*compilation.module, compilation.settings, compilation.sources);
  const RecomputeCost recompute = recomputeCost(compilation, made.workBytes).value_or(RecomputeCost());
  StepRecord told;
  const StepCost step = stepCost(compilation, products, made, options.trace.empty() ? nullptr : &told);
  std::optional<PolicyCost> policy;
  if (std::string why; !policyCost(compilation, step, options.delays, policy, why)) {
    std::cerr << "echelon: --delays " << frontend::quoted(options.delays) << ": " << frontend::printable(why) << "\n";
    exitCode = Usage;
    return std::nullopt;
  }
  std::optional<SnapshotChoice> snapshots;
  if (!compilation.settings.checkpoint.directory.empty())
    snapshots = compilation.snapshotChoice ? *compilation.snapshotChoice // of `checkpoint auto`
                                           : snapshotChoice(compilation, step, made);
  if ((!options.write.empty() && !writeSpec(compilation, options.write)) ||
      (!options.trace.empty() && !writeTrace(compilation, step, told, options.trace))) {
    exitCode = Usage;
    return std::nullopt;
  }
  Printed printed;
  if (asJson) {
    std::vector<std::string> all = mathematics;
    all.insert(all.end(), ofClauses.begin(), ofClauses.end());
    printed.json = toJson(compilation, all, made, decay, recompute, step, snapshots);
    if (policy)
      printed.json["sync"] = policyJson(*policy);
  } else {
    if (compilation.options.chosen)
      printed.text = frontend::printable(compilation.options.chosen->report(), frontend::Lines::Kept);
    printed.text += step.text(made.memory.total - made.copyBytes) +
                    (policy ? frontend::printable(policy->text(), frontend::Lines::Kept) : "") + made.text() +
                    offloadText(compilation, made) + choiceText(compilation) + recomputeText(recompute) +
                    (snapshots ? frontend::printable(snapshots->text(), frontend::Lines::Kept) : "") +
                    decayText(decay) + mathematicsText("mathematics: not that of one device", mathematics) +
                    mathematicsText("mathematics", ofClauses) +
                    (options.trace.empty() ? "" : traceText(told, options.trace));
  }
  return printed;
}

/// The plan of the degree that meets `until` soonest, behind how that was found.
std::optional<Printed> plannedByHistory(PlanOptions options, int &exitCode) {
  std::string why;
  const std::optional<TimeToTarget> found = timeToTarget(options, options.history, why);
  if (!found) {
    if (!why.empty())
      std::cerr << "echelon: " << frontend::printable(why) << "\n";
    exitCode = why.empty() ? SpecWrong : Usage;
    return std::nullopt;
  }
  if (const std::string setting = found->setting(); !setting.empty())
    options.settings.push_back(setting);
  std::optional<Printed> printed = planned(options, options.json, exitCode);
  if (printed && options.json)
    printed->json["history"] = historyJson(*found);
  else if (printed)
    printed->text = frontend::printable(found->text(), frontend::Lines::Kept) + printed->text;
  return printed;
}

int plan(const PlanOptions &options) {
  if (!options.trace.empty() && options.trace == options.write) {
    std::cerr << "echelon: --trace and --write name the same file\n";
    return Usage;
  }
  const bool compares = !options.other.empty();
  int exitCode = Fine;
  std::optional<Printed> printed = options.history.empty() ? planned(options, options.json || compares, exitCode)
                                                           : plannedByHistory(options, exitCode);
  std::string text;
  if (compares) {
    PlanOptions second = options;
    second.spec = options.other;
    if (!options.otherTrain.empty())
      second.train = options.otherTrain;
    const std::optional<Printed> other = planned(second, true, exitCode); // both tell what is wrong with them
    if (!printed || !other)
      return exitCode;
    printed->json = differenceJson({options.spec, printed->json}, {options.other, other->json});
    text = differenceText(printed->json);
  } else if (printed) {
    text = printed->text;
  } else {
    return exitCode;
  }
  if (options.json)
    std::cout << printed->json.dump(2, ' ', false, nlohmann::json::error_handler_t::replace) << "\n";
  else
    std::cout << text;
  return Fine;
}
} // namespace

void addPlan(CLI::App &app, int &exitCode) {
  auto options = std::make_shared<PlanOptions>();
  CLI::App *command = app.add_subcommand(
      "plan",
      "what a step takes, memory of a rank by category, every collective with bytes, count, time and reason, and which "
      "parameters decay");
  options->needsNoData = true;
  addSpecOptions(command, *options);
  CLI::Option *other =
      command->add_option("OTHER", options->other, "another spec: what its plan has more than that of SPEC, or less");
  command->add_option("--other-train", options->otherTrain, "the train block of OTHER (that of --train unless told)")
      ->needs(other);
  addTargetOption(command, *options);
  addRanksOption(command, *options);
  command->add_option("--machine", options->machineFile,
                      "what echelon calibrate has written of this machine, FILE.ech, or typical; else "
                      "$ECHELON_MACHINE, or machine.ech in the build cache");
  command->add_flag("--json", options->json, "the same as JSON");
  command->add_option("--write", options->write, "a file for the spec with every choice of the layout in it")
      ->type_name("OUT.ech")
      ->excludes(other);
  command->add_option("--trace", options->trace, "a file for what the step does when, for ui.perfetto.dev")
      ->type_name("FILE")
      ->excludes(other);
  CLI::Option *delays =
      command
          ->add_option("--delays", options->delays,
                       "a trace of a run (run --trace): under a sync policy, delays as its ranks had them")
          ->type_name("TRACE")
          ->excludes(other);
  command
      ->add_option("--history", options->history,
                   "logs of other runs of this train block, LOG, under a sync policy also WORKERS=LOG: which size of "
                   "the mesh axis that is auto meets until soonest")
      ->type_name("LOG")
      ->excludes(other)
      ->excludes(delays);
  command->footer("Examples:\n  echelon plan spec.ech\n  echelon plan spec.ech --json | jq .memory_bytes\n"
                  "  echelon plan spec.ech --trace step.json\n"
                  "  echelon plan before.ech after.ech\n"
                  "  echelon plan spec.ech --history one.jsonl two.jsonl\n"
                  "  echelon plan spec.ech spec.ech --train small --other-train large");
  command->callback([options, command, &exitCode] {
    options->ofCluster = command->count("--target") == 0;
    exitCode = plan(*options);
  });
}

} // namespace echelon
