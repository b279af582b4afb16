#include "tools/driver/verify/Verify.h"

#include "tools/driver/ExitCode.h"
#include "tools/driver/build/Executable.h"
#include "tools/driver/build/Paths.h"
#include "tools/driver/build/TemporaryFolder.h"
#include "tools/driver/start/ChildProcess.h"
#include "tools/driver/start/Mpirun.h"
#include "tools/driver/verify/OneRank.h"
#include "tools/driver/verify/RandomLayout.h"
#include "tools/driver/verify/Trace.h"

#include "llvm/Support/Format.h"
#include "llvm/Support/raw_ostream.h"

#include <cmath>
#include <filesystem>
#include <iostream>
#include <numeric>

namespace fs = std::filesystem;

namespace echelon {

namespace {

constexpr int kSteps = 3;             // without a sync policy
constexpr int kOrders = 4;            // the emulated streams' rules (runtime/cuda/host/Streams.h), twice at random
constexpr int64_t kFixedScale = 1024; // a dynamic one skips steps at first, and these show nothing
// Of docs/language.md, "Precision": the error against fp64 of many ranks, in errors of one; how far the loss, and the
// gradients, of the first step are apart between layouts.
constexpr double kTimesOwn = 4, kLossApart = 2e-4, kGradientApart = 2e-2;

class Verifier {
public:
  explicit Verifier(const VerifyOptions &given) : options(given) {
    options.keepGradients = options.trainingOnly = options.drawsArrivals = true;
    options.doublePrecision = !options.isInPrecision;
    options.fixedLossScale = kFixedScale;
  }
  int verify();

  Verified found;

private:
  struct Trial {
    std::string title;
    CompileOptions options;
  };

  bool addTrials();
  void useClauses(const frontend::RunSettings &settings, CompileOptions &one);
  bool isComparable(llvm::ArrayRef<std::string> others);
  bool chooseRandom();
  bool run(const Trial &trial, const std::string &transport, Trace &result);
  bool makeReference(Trial &trial);
  void judge(const Trial &trial, const std::string &transport, const Trace &result);
  bool isAsNear(const Trace &result, std::string &said) const;

  VerifyOptions options;
  TemporaryFolder temporary;
  const std::string folder = temporary.path();
  std::vector<Trial> trials;
  int64_t multiple = 1, samples = 4, skipped = 0;
  int steps = kSteps;
  std::vector<std::string> perMicroBatch;
  Trace reference, exact; // of one rank; that one in fp64, where the reference is not
  std::optional<CompileOptions::Workers> workersOfReference;
  int64_t policyWorkersOfReference = 0;
  bool isOfTwoBytes = false; // what products take
  std::string chosenBy;      // a packing that chooses by values, so that one rounding decides what travels; empty: none
  int exitCode = Fine, runs = 0;
};

int64_t parts(const frontend::RunSettings &plan) { return plan.microBatches * plan.ranks(); }

/// The spec's own layout, those of --layout, then random ones; a batch that all of them divide, and of two samples or
/// more for every rank and pass. False: it has been said why.
bool Verifier::addTrials() {
  auto add = [&](const std::string &title, llvm::StringRef layout) {
    CompileOptions one = options;
    auto [mesh, micro] = layout.rsplit(" in ");
    if (micro.consume_back(" micro batches") && !micro.getAsInteger(10, one.microBatches))
      layout = mesh;
    one.layout = layout.str();
    Compilation compilation(one);
    bool good = compilation.parse() && compilation.resolve() && compilation.elaborate();
    if (good && one.microBatches) {
      const frontend::RunSettings &plan = compilation.settings;
      int64_t samples = plan.batch / plan.batchRanks(compilation.facts.batchAxis);
      if (one.microBatches < 1 || samples % one.microBatches != 0) {
        std::cerr << "echelon: --layout " << frontend::quoted(title) << ": " << samples
                  << " samples of a rank do not divide into " << one.microBatches << " micro batches\n";
        exitCode = Usage;
        return false;
      }
    }
    std::vector<std::string> others; // before passes take the operations apart that it looks for
    if (good) {
      perMicroBatch = compilation.perMicroBatch();
      if (compilation.settings.microBatches > 1)
        others = perMicroBatch;
    }
    good = good && compilation.lower(Stage::Dist);
    compilation.printDiagnostics();
    if (!good) {
      exitCode = SpecWrong;
      return false;
    }
    if (!isComparable(others))
      return false;
    multiple = std::lcm(multiple, parts(compilation.settings));
    one.workers = compilation.workers();
    useClauses(compilation.settings, one);
    options.warns = one.warns = false; // the model's are told
    trials.push_back({title, one});
    return true;
  };
  if (!add("the spec's layout", ""))
    return false;
  for (const std::string &layout : options.layouts)
    if (!add(frontend::printable(layout), layout))
      return false;
  return chooseRandom();
}

/// Under a sync policy, gradients come to be stale after as many updates as there are workers; local ones have to meet.
void Verifier::useClauses(const frontend::RunSettings &settings, CompileOptions &one) {
  isOfTwoBytes = llvm::is_contained({"bf16", "fp16", "fp8"}, settings.precision.compute);
  if (settings.compress &&
      (settings.compress->kind == "onebit" || (settings.compress->kind == "topk" && settings.compress->amount < 1)))
    chosenBy = settings.compress->method();
  if (!settings.sync)
    return;
  one.policyWorkers = settings.sync->workers;
  const int64_t wanted = settings.sync->isLocal() ? settings.sync->every + 2 : kSteps + 2 * one.policyWorkers;
  steps = std::max(steps, int(std::min<int64_t>(wanted, 20)));
}

/// False, with the reason printed: the statistics of one micro batch are others under each layout, and so are results.
bool Verifier::isComparable(llvm::ArrayRef<std::string> others) {
  if (others.empty())
    return true;
  std::cerr
      << "echelon: under micro batches this model computes what no other layout does, so there is nothing to compare "
         "with:\n";
  for (const std::string &what : others)
    std::cerr << "  " << frontend::printable(what) << "\n";
  std::cerr << "verify it without micro batches, or without local = true\n";
  exitCode = Usage;
  return false;
}

/// Draws until enough are accepted: a layout that does not divide is a diagnostic, as it should be.
bool Verifier::chooseRandom() {
  if (!options.randomLayouts)
    return true;
  Compilation model(options);
  if (!model.parse() || !model.resolve() || !model.elaborate())
    return false;
  uint64_t seed = options.seed;
  for (int accepted = 0; accepted < options.randomLayouts; ++seed) {
    RandomLayout drawn = randomLayout(model, seed);
    CompileOptions one = options;
    one.layout = drawn.layout;
    one.microBatches = perMicroBatch.empty() ? drawn.microBatches : 1;
    one.batch = 4 * drawn.batchMultiple;
    Compilation trial(one);
    if (!trial.parse() || !trial.resolve() || !trial.elaborate() || !trial.lower(Stage::Dist)) {
      if (++skipped > int64_t(40) * options.randomLayouts) {
        std::cerr << "echelon: " << skipped << " random layouts were refused; the last one, " << drawn.layout
                  << ", because of:\n";
        trial.printDiagnostics();
        exitCode = SpecWrong;
        return false;
      }
      continue;
    }
    std::string title = "seed " + std::to_string(seed) + ": " + drawn.layout;
    if (one.microBatches > 1)
      title += " in " + std::to_string(one.microBatches) + " micro batches";
    multiple = std::lcm(multiple, drawn.batchMultiple);
    one.workers = trial.workers();
    useClauses(trial.settings, one);
    trials.push_back({title, one});
    ++accepted;
  }
  return true;
}

/// Builds, runs kSteps steps and reads what was dumped. False: it has been said why.
bool Verifier::run(const Trial &trial, const std::string &transport, Trace &result) {
  Compilation compilation(trial.options);
  std::string executable = executableOf(compilation, exitCode);
  if (executable.empty()) {
    std::cerr << "echelon: that was " << trial.title << "\n";
    return false;
  }
  std::string own = folder + "/run", log = own + "/log.jsonl";
  std::error_code none;
  fs::remove_all(own, none);
  fs::create_directories(own, none);
  std::string from = fs::absolute(trial.options.spec).parent_path().string();
  if (trial.options.machine == Machine::CudaHost) // each trial another legal order of a GPU's work
    setenv("ECHELON_SEED", std::to_string(runs++ % kOrders).c_str(), 1);
  std::vector<std::string> command = launcher(transport, compilation.settings.ranks(), "", /*crowded=*/true);
  command.insert(command.end(), {executable, "--folder", from, "--transport", transport, "--log", log, "--dump",
                                 own + "/dump", "--dump-state"});
  if (!compilation.settings.checkpoint.directory.empty())
    command.insert(command.end(), {"--out", own});
  if (compilation.settings.steps > steps)
    command.insert(command.end(), {"--steps", std::to_string(steps)});
  const CapturedOutput said;
  const int status = transport == "mpi" ? captureMpirun(command, executable, said) : runProgram(command, said);
  if (status == kNotStarted)
    std::cerr << "echelon: cannot start " << frontend::quoted(command.front()) << ", for " << trial.title << "\n"
              << frontend::printable(said.text(), frontend::Lines::Kept);
  else if (status != 0 && status != kNoProcess)
    std::cerr << "echelon: the program of " << trial.title << " ended with " << status << ":\n"
              << frontend::printable(said.text(), frontend::Lines::Kept);
  if (status != 0) {
    exitCode = RunFailed;
    return false;
  }
  result = readTrace(log, own + "/dump", steps);
  return true;
}

/// In a precision: no farther from fp64 than some times one rank is, and as near to that rank as two layouts are.
bool Verifier::isAsNear(const Trace &result, std::string &said) const {
  const auto apart = std::max<int64_t>(policyWorkersOfReference, 1);
  Distances own, many, between;
  // An element of a gradient that is below what layouts are apart may have either sign, and so its update by AdamW.
  const double least = options.machine != Machine::Cpu && isOfTwoBytes ? kLeastRoundedGradient : kLeastGradient;
  compareTraces(exact, reference, apart, &own, kGradientApart, least);
  compareTraces(exact, result, apart, &many, kGradientApart, least);
  compareTraces(reference, result, apart, &between, kGradientApart, least);
  own = ofAllSteps(own);
  double most = -1, of = 0;
  std::string where;
  auto see = [&](double error, double bound, const std::string &what) {
    if (error / bound > most || std::isnan(error / bound)) {
      most = error / bound;
      of = bound;
      where = what;
    }
  };
  constexpr double kLeast = 1e-6; // sums in another order, of a result that one rank has right by chance
  for (const auto &[what, error] : many)
    if (chosenBy.empty() || what == "loss of step 1")
      see(error, kTimesOwn * own[what] + kLeast, what);
  for (const auto &[what, error] : between)
    if (what == "loss of step 1") // later ones turn on what is rounded to its other side, the more the fewer samples
      see(error, kLossApart, what + ", between layouts");
    else if (llvm::StringRef(what).starts_with("gradient of ") && llvm::StringRef(what).ends_with(" of step 1"))
      see(error, kGradientApart, what + ", between layouts");
  llvm::raw_string_ostream(said) << llvm::format("%.1e", most * of) << " of " << llvm::format("%.1e", of) << " in "
                                 << where;
  return most <= 1;
}

void Verifier::judge(const Trial &trial, const std::string &transport, const Trace &result) {
  std::string said;
  bool fine = false;
  if (options.isInPrecision) {
    fine = isAsNear(result, said);
  } else {
    const Worst worst = compareTraces(reference, result, std::max<int64_t>(policyWorkersOfReference, 1));
    fine = worst.error <= kTraceTolerance;
    if (worst.error > found.worst) {
      found.worst = worst.error;
      found.worstIn = worst.where;
    }
    if (worst.error == 0)
      said = "no difference";
    else
      llvm::raw_string_ostream(said) << "worst " << llvm::format("%.1e", worst.error) << " in " << worst.where;
  }
  (fine ? found.passed : found.failed)++;
  llvm::outs() << (fine ? "ok    " : "WRONG ") << trial.title << " (" << transport << "): " << said << "\n";
  llvm::outs().flush();
}

/// One rank, which works for the workers of the trial one after the other; that of the trial before where it is the
/// same.
bool Verifier::makeReference(Trial &trial) {
  std::optional<CompileOptions::Workers> workers = std::move(trial.options.workers);
  const int64_t policyWorkers = trial.options.policyWorkers;
  trial.options.workers.reset(); // a layout has its own
  trial.options.policyWorkers = 0;
  auto isSame = [&](const CompileOptions::Workers &a, const CompileOptions::Workers &b) {
    return a.all == b.all && a.ofHop == b.ofHop && a.microBatches == b.microBatches && a.exact == b.exact;
  };
  if (!reference.steps.empty() && policyWorkers == policyWorkersOfReference &&
      workers.has_value() == workersOfReference.has_value() && (!workers || isSame(*workers, *workersOfReference)))
    return true;
  policyWorkersOfReference = policyWorkers;
  Trial alone{"one rank", oneRankFor(options, workers, policyWorkers)};
  if (!options.isInPrecision) // a target rounds in places of its own; in fp64 all are the CPU's
    alone.options.machine = Machine::Cpu;
  alone.options.batch = trial.options.batch;
  reference = Trace();
  workersOfReference = std::move(workers);
  if (!run(alone, "threads", reference))
    return false;
  alone.title += " in fp64";
  alone.options.doublePrecision = true;
  alone.options.machine = Machine::Cpu;
  return !options.isInPrecision || run(alone, "threads", exact);
}

int Verifier::verify() {
  if (folder.empty()) {
    std::cerr << "echelon: cannot make a temporary folder in the build cache " << frontend::quoted(cacheFolder())
              << "; set ECHELON_CACHE to a folder that can be written\n";
    return RunFailed;
  }
  if (!addTrials())
    return exitCode;
  int64_t batch = (std::max<int64_t>(2 * multiple, samples) + multiple - 1) / multiple * multiple;
  for (Trial &trial : trials)
    trial.options.batch = batch;
  static const std::vector<std::string> kEach = {"threads", "shm", "mpi"};
  for (size_t i = 0; i < trials.size(); ++i) {
    if (!makeReference(trials[i]))
      return exitCode;
    std::string transport = options.transport == "each" ? kEach[i % kEach.size()] : options.transport;
    Trace result;
    if (run(trials[i], transport, result)) {
      judge(trials[i], transport, result);
    } else {
      ++found.failed;
      llvm::outs() << "FAILED " << trials[i].title << " (" << transport << "): it was not built or did not run to its "
                   << "end\n";
    }
  }
  found.batch = batch;
  found.steps = reference.steps.size();
  llvm::outs() << found.passed << " passed, " << found.failed << " failed";
  if (skipped)
    llvm::outs() << "; " << skipped
                 << (skipped == 1 ? " random layout does not divide and was" : " random layouts do not divide and were")
                 << " drawn again";
  llvm::outs() << (options.isInPrecision ? " (as near to fp64 as 4 times one rank" : " (fp64") << ", batch " << batch
               << ", " << reference.steps.size() << " steps"
               << (options.isInPrecision ? ")\n" : ", tolerance 1e-10)\n");
  if (options.isInPrecision && !chosenBy.empty())
    llvm::outs() << "of the first step alone: what travels under " << chosenBy
                 << " turns on values, and so on how they are rounded\n";
  return !found.failed ? Fine : exitCode != Fine ? exitCode : RunFailed;
}

} // namespace

/// What `recompute auto` comes to in the spec's own sizes, and for its own layout, is what is verified.
static std::optional<frontend::RecomputeSettings> chosenRecompute(const VerifyOptions &options) {
  Compilation spec(options);
  if (!spec.parse() || !spec.resolve() || spec.settings.recompute.policy != "auto" || !spec.elaborate())
    return options.recompute; // what is wrong is told when it is verified
  frontend::RecomputeSettings chosen = spec.settings.recompute;
  chosen.within = 0; // what is verified has other sizes, and numbers twice as long
  return chosen;
}

int verify(const VerifyOptions &given, Verified *found) {
  VerifyOptions options = given;
  options.recompute = chosenRecompute(given);
  Verifier verifier(options);
  const int exitCode = verifier.verify();
  if (found)
    *found = verifier.found;
  return exitCode;
}

} // namespace echelon
