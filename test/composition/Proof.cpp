#include "test/composition/Proof.h"

#include "ir/run/Run.h"
#include "test/composition/Reference.h"
#include "test/passes/layout/Ranks.h"
#include "tools/driver/build/Executable.h"
#include "tools/driver/start/ChildProcess.h"
#include "tools/driver/start/Mpirun.h"
#include "tools/driver/verify/Npy.h"
#include "tools/driver/verify/OneRank.h"

#include <cmath>
#include <filesystem>
#include <fstream>
#include <sstream>

using namespace mlir;
using namespace echelon;
using namespace echelon::ech;
using namespace echelon::test;

namespace {

Verdict different(const std::string &why) { return {Verdict::Different, why, INFINITY}; }

//===- all ranks, on numbers -------------------------------------------------------------------------------------===//

Array plain(const interpret::Array &x, Type type) {
  Array y(cast<Tensor>(type).withState({}));
  y.data = x.values;
  return y;
}

/// The first step of a laid-out module from the reference's start values.
std::string runRanks(ModuleOp module, Reference &one, Trace::Step &row) {
  Feed feed;
  const interpret::Machine &machine = one.machine();
  for (auto op : module.getOps<VariableOp>())
    feed[op.getSymName().str()] = plain(machine.values.at(op.getSymName().str()), op.getType());
  for (auto op : module.getOps<InputOp>())
    if (auto x = machine.values.find(op.getSymName().str()); x != machine.values.end())
      feed[op.getSymName().str()] = plain(x->second, op.getType());
  Surroundings around;
  around.learningRate = machine.learningRate;
  around.step = 0;
  around.seed = machine.seed;
  around.lossScale = machine.lossScale;
  Outcome outcome;
  if (std::string trouble = runStep(module, "train", feed, outcome, around); !trouble.empty())
    return trouble;
  for (auto &[name, value] : outcome.reports)
    row.reports[name == "norm" ? "grad_norm" : name] = value;
  for (auto op : module.getOps<VariableOp>()) {
    std::string name = op.getSymName().str();
    if (op.getSymName().starts_with("gradient."))
      row.gradient[name.substr(9)] = outcome.gradients.at(name.substr(9)).data;
    else if (auto x = outcome.written.find(name); x != outcome.written.end())
      row.after[name] = x->second.data;
    else
      row.after[name] = feed.at(name).data;
  }
  return "";
}

//===- judgement -------------------------------------------------------------------------------------------------===//

/// How compareTraces takes gradients: known from where on, and measured against what at least. In two bytes nothing may
/// be left of sums that cancel, as the gradient of a key's bias, but what was rounded; and a GPU's kernels round what
/// is summed up for a bias.
struct Noise {
  double known, least;
};
Noise noiseOf(Machine machine, const Clause *precision) {
  if (!precision || precision->name == "precision tf32" || precision->name == "precision fp32")
    return {1e-5, kLeastGradient};
  return {2e-2, machine == Machine::CudaHost ? kLeastRoundedGradient : 5 * kLeastGradient};
}

/// How well one rank knows its results: the farthest that they move when numbers do in their last digits. Not a number
/// where that is not known.
template <class Run> Distances spread(const Trace &one, int runs, const Run &run) {
  Distances most;
  for (int i = 0; i < runs; ++i) {
    Distances each;
    compareTraces(one, run(uint64_t(i + 1)), 1, &each);
    for (auto [where, distance] : each)
      if (double &so = most.try_emplace(where, 0).first->second; !(distance <= so))
        so = std::isnan(so) ? so : distance;
  }
  return most;
}

constexpr double kTimesOwn = 4; // the error of many ranks, in errors of one

/// Each result may be off by so many times what it is `known` to, and by `least`. Unsettled: most are known to so
/// little that nothing follows.
Verdict judge(const Distances &many, const Distances &known, double least) {
  size_t vague = 0;
  for (auto [where, distance] : many) {
    auto own = known.find(where);
    const double bound = own == known.end() ? NAN : least + kTimesOwn * own->second;
    vague += !(bound < 0.5);
    if (!std::isnan(bound) && !(distance <= bound)) {
      std::ostringstream text;
      text << distance << " in " << where << ", which may be " << bound;
      return {Verdict::Different, text.str(), distance};
    }
  }
  return {2 * vague > many.size() ? Verdict::Unsettled : Verdict::Equal, "its last digits turn most results", 0};
}

/// To 1e-10; where a comparison, a packing or a rounding may have turned at a tie, or a model multiplies what rounding
/// has done, as well as one rank knows its results when its numbers move by 1e-13. `run`: that, by seed.
template <class Run> Verdict judge(const Trace &one, const Trace &many, const std::string &what, const Run &run) {
  Distances each;
  Worst worst = compareTraces(one, many, 1, &each);
  if (worst.error <= kTraceTolerance)
    return {Verdict::Equal, "", worst.error};
  std::ostringstream text;
  text << what << ": " << worst.error << " in " << worst.where;
  for (int runs : {4, 32})
    if (judge(each, spread(one, runs, run), kTraceTolerance).kind != Verdict::Different)
      return {Verdict::Unsettled, text.str(), worst.error};
  return {Verdict::Different, text.str(), worst.error};
}

/// The log has null for these. False: one has what the other has not.
bool dropInfinite(Trace::Step &one, Trace::Step &many) {
  for (auto report = one.reports.begin(); report != one.reports.end();) {
    auto other = many.reports.find(report->first);
    if (std::isfinite(report->second)) {
      ++report;
      continue;
    }
    if (other == many.reports.end() || std::isfinite(other->second))
      return false;
    many.reports.erase(other);
    report = one.reports.erase(report);
  }
  return true;
}

constexpr double kJitter = 1e-13;

/// One step by the interpreter and by all ranks, from the same values.
Verdict compareOnNumbers(const RandomSpec &spec, ModuleOp one, ModuleOp many) {
  const Clause *precision = spec.clause("precision");
  const bool isDynamic = precision && precision->name == "precision fp16_dynamic";
  double scale = 1;
  if (precision)
    if (auto clause = run::only<run::LossScaleOp>(one))
      scale = double(clause.getStart());
  auto first = [&](Arithmetic arithmetic) {
    Reference reference(one, spec, arithmetic);
    reference.machine().lossScale = scale;
    reference.feed(false, 0, spec.batch);
    Trace trace;
    trace.steps.push_back(reference.onlyStep(0));
    return trace;
  };
  Trace reference = first({}), ranks;
  auto norm = [&] { // a loss that there is none of has the norm 0
    auto found = reference.steps[0].reports.find("grad_norm");
    return found == reference.steps[0].reports.end() ? 0 : found->second;
  };
  for (; isDynamic && scale > 1 && !std::isfinite(norm()); reference = first({}))
    scale /= 2;
  const bool isNumber =
      llvm::none_of(reference.steps[0].reports, [](const auto &report) { return std::isnan(report.second); });
  if (precision && (!isNumber || !std::isfinite(norm()) || (!isFinite(reference.steps[0]) && !spec.clause("on"))))
    return {Verdict::Unsettled, "beyond the numbers of fp16", 0};
  Reference start(one, spec);
  start.machine().lossScale = scale;
  start.feed(false, 0, spec.batch);
  if (std::string trouble = runRanks(many, start, ranks.steps.emplace_back()); !trouble.empty())
    return different("on numbers: " + trouble);
  for (auto &[name, value] : reference.steps[0].reports)
    if (!std::isfinite(value) && !spec.clause("on"))
      return different(name + " is not finite on one rank");
  if (!dropInfinite(reference.steps[0], ranks.steps[0]))
    return different("on numbers: a loss is infinite on one rank alone, or on many");
  Verdict verdict = judge(reference, ranks, "on numbers",
                          [&](uint64_t seed) { return first({Arithmetic::Jittered, kJitter, seed}); });
  if (verdict.kind != Verdict::Different || !precision || precision->name != "precision params")
    return verdict;
  // Each rank rounds its part of a gradient that is kept in two bytes.
  const Noise noise = noiseOf(Machine::Cpu, precision);
  const Trace exact = first({Arithmetic::Exact, 0, 0});
  Distances each;
  compareTraces(exact, ranks, 1, &each, noise.known, noise.least);
  const Distances known = spread(exact, 64, [&](uint64_t seed) { return first({Arithmetic::Noisy, 0x1p-8, seed}); });
  verdict = judge(each, known, 1e-6);
  verdict.why = "on numbers: " + verdict.why;
  return verdict;
}

//===- programs --------------------------------------------------------------------------------------------------===//

CompileOptions optionsFor(const RandomSpec &spec, const std::string &path) {
  CompileOptions options;
  options.spec = path;
  if (spec.seed % 2) { // as between machines, where gradients of loops travel alone: here small ones, too
    options.pipeline.loopBytes = 1;
    options.nodeRanks = 1;
  }
  options.doublePrecision = !spec.clause("precision");
  options.keepGradients = options.drawsArrivals = true;
  options.warns = false;
  return options;
}

/// Whether steps become so large that each one multiplies what rounding has done.
bool diverges(const Trace &trace) {
  constexpr double kGrowth = 10;
  for (const char *name : {"loss", "grad_norm"})
    for (const Trace::Step &step : trace.steps)
      if (auto now = step.reports.find(name), first = trace.steps[0].reports.find(name);
          now != step.reports.end() && first != trace.steps[0].reports.end() &&
          std::abs(now->second) > kGrowth * std::abs(first->second))
        return true;
  return false;
}

/// "eval_loss is nan at step 11" of what a program says at its end; empty where it says nothing like it.
std::string nanOf(StringRef said) {
  const auto [before, after] = said.split(" is nan at step ");
  return after.empty() ? "" : (before.rsplit(' ').second + " is nan at step " + after.split(',').first).str();
}

bool compile(Compilation &compilation, Stage until) {
  return compilation.parse() && compilation.resolve() && compilation.elaborate() && compilation.lower(until);
}

/// Start values are the same function of seed and path. What is wrong, or an empty text.
std::string compareStarts(Reference &reference, const std::string &dumped, double tolerance) {
  for (auto &[name, x] : reference.machine().values) {
    if (StringRef(name).starts_with("gradient.") || StringRef(name).starts_with("kept.")) // those have none
      continue;
    std::vector<double> given = readNpy(dumped + "/start/" + name + ".npy");
    if (given.size() != x.values.size())
      return "the start values of " + name + " are missing";
    for (size_t i = 0; i < given.size(); ++i)
      if (std::abs(given[i] - x.values[i]) > tolerance * (1 + std::abs(given[i])))
        return "the start values of " + name;
  }
  return "";
}

} // namespace

/// Builds the program, trains it and reads what it left behind. What is wrong, or an empty text.
std::string Proof::train(const CompileOptions &options, const RandomSpec &spec, const std::string &over,
                         Trace &trace) const {
  std::error_code none;
  std::filesystem::remove_all(out(), none);
  std::filesystem::create_directories(out(), none);
  Compilation build(options);
  int exitCode = 0;
  std::string executable = executableOf(build, exitCode);
  if (executable.empty())
    return "does not build: " + build.diagnostics.text();
  std::vector<std::string> command = launcher(over, build.settings.ranks(), "", /*crowded=*/true);
  command.insert(command.end(), {executable, "--folder", folder, "--out", out(), "--transport", over, "--deadline",
                                 "60", "--log", out() + "/log", "--dump", out() + "/dump", "--dump-state"});
  const CapturedOutput said;
  const int status = runProgram(command, said);
  std::filesystem::remove_all(std::filesystem::path(executable).parent_path(), none); // it is run once
  if (status != 0)
    return "the program ended with " + std::to_string(status) + ": " + said.text();
  trace = readTrace(out() + "/log", out() + "/dump", int(spec.steps()));
  return "";
}

/// The program against that of one rank, which works for the workers one after the other. In fp64 to 1e-10; in a
/// precision as near as where all is rounded alike, or as that one rank's results are to those of fp64.
Verdict Proof::checkPolicy(const RandomSpec &spec, const Compilation &many) const {
  const int64_t workers = many.settings.sync->workers;
  const Clause *precision = spec.clause("precision");
  CompileOptions alone = oneRankFor(many.options, many.workers(), workers);
  if (precision) // a target rounds in places of its own
    alone.machine = machine;
  Trace one, program;
  const std::string troubleOfOne = train(alone, spec, "threads", one);
  if (!troubleOfOne.empty() && !precision)
    return different("on one rank: " + troubleOfOne);
  CompileOptions options = many.options;
  options.machine = machine;
  const std::string trouble = train(options, spec, transport, program);
  if (precision && (needsSmallNumbers(*precision) || precision->name == "precision fp8") && !trouble.empty() &&
      !troubleOfOne.empty())
    return {Verdict::Unsettled, "beyond the numbers of its precision", 0};
  const std::string end = nanOf(trouble);
  if (!end.empty() && (troubleOfOne.empty() ? diverges(one) : nanOf(troubleOfOne) == end))
    return {Verdict::Unsettled, "the loss grows beyond all numbers", 0};
  if (!trouble.empty() || !troubleOfOne.empty())
    return different(trouble.empty() ? "on one rank: " + troubleOfOne : trouble);
  const Noise noise = noiseOf(machine, precision);
  Distances each;
  Worst worst = compareTraces(one, program, workers, &each, noise.known, noise.least);
  if (precision) // what a packing leaves over turns on single roundings; it comes into the parameters, which are
                 // compared
    for (auto distance = each.begin(); distance != each.end();)
      distance = StringRef(distance->first).contains("residual.") ? each.erase(distance) : std::next(distance);
  std::ostringstream text;
  text << "the program: " << worst.error << " in " << worst.where;
  constexpr double kSameRoundings = 2e-4; // sums in another order, seldom a number that is rounded to its other side
  if (worst.error <= (precision ? kSameRoundings : kTraceTolerance))
    return {Verdict::Equal, "", worst.error};
  if (diverges(one))
    return {Verdict::Unsettled, text.str(), worst.error};
  if (!precision)
    return different(text.str());
  if (const Clause *compress = spec.clause("compress");
      compress && (compress->name == "compress onebit" || compress->name == "compress topk"))
    return {Verdict::Unsettled, "one rounding decides what travels; " + text.str(), worst.error};
  Distances known;
  if (llvm::any_of(one.steps, [](const Trace::Step &step) { return step.isSkipped; })) { // fp64 skips no step
    for (auto [where, distance] : each)
      known[where] = 5e-3;
  } else {
    alone.doublePrecision = true;
    alone.machine = Machine::Cpu;
    Trace wide;
    if (std::string wrong = train(alone, spec, "threads", wide); !wrong.empty())
      return different("on one rank in fp64: " + wrong);
    compareTraces(wide, one, 1, &known, noise.known, noise.least);
  }
  // Sums in another order, seven steps long; what the ranks of a worker sum up in two bytes one rank sums up whole.
  Verdict verdict = judge(each, ofAllSteps(known), precision->name == "precision reduce" ? 0x1p-7 : 2e-5);
  verdict.why = "the program: " + verdict.why;
  return verdict;
}

/// The program against the interpreter, on what it read. In fp64 to 1e-10; in a precision as well as one rank knows its
/// results, whose numbers are moved by as much as rounding may.
Verdict Proof::checkProgram(const RandomSpec &spec, ModuleOp one, const std::string &path) const {
  Trace program;
  const bool isExact = !spec.clause("precision");
  CompileOptions options = optionsFor(spec, path);
  options.machine = machine;
  const std::string dumped = out() + "/dump", trouble = train(options, spec, transport, program);
  Course course;
  auto trained = [&](Arithmetic arithmetic) {
    Reference reference(one, spec, arithmetic);
    if (!isExact)
      for (auto &[name, x] : reference.machine().values)
        if (std::vector<double> start = readNpy(dumped + "/start/" + name + ".npy"); start.size() == x.values.size())
          x.values = start;
    if (auto clause = run::only<run::LossScaleOp>(one); clause && !isExact)
      reference.machine().lossScale = double(clause.getStart());
    reference.train(dumped, course);
    return reference.trace;
  };
  if (!trouble.empty()) // under a fixed scale, numbers beyond fp16 end a run
    return !isExact && int64_t(trained({}).steps.size()) < spec.steps()
               ? Verdict{Verdict::Unsettled, "beyond the numbers of fp16", 0}
               : different(trouble);
  if (!isExact) // what passes inside of a loop is not rounded, and need not be beyond fp16 where the interpreter's is
    for (const Trace::Step &step : program.steps) {
      course.skipped.push_back(step.isSkipped);
      course.scales.push_back(step.reports.count("loss_scale") ? step.reports.at("loss_scale") : 1);
    }
  Reference starts(one, spec);
  constexpr double kStored = 0x1p-8; // parameters may be kept in bf16
  if (std::string wrong = compareStarts(starts, dumped, isExact ? 1e-12 : kStored); !wrong.empty())
    return different(wrong);
  if (isExact)
    return judge(trained({}), program, "the program",
                 [&](uint64_t seed) { return trained({Arithmetic::Jittered, kJitter, seed}); });
  const Noise noise = noiseOf(machine, spec.clause("precision"));
  Trace reference = trained({Arithmetic::Exact, 0, 0});
  Distances each;
  compareTraces(reference, program, 1, &each, noise.known, noise.least);
  Verdict verdict;
  for (int runs : {8, 64}) {        // many where few have missed how far a result may jump
    constexpr double kLeast = 1e-6; // a few digits of a whole result
    // A last digit or two of fp32, of what ranks sum up in two bytes one of these.
    const double digits = spec.clause("precision")->name == "precision reduce" ? 0x1p-8 : 0x1p-22;
    verdict =
        judge(each, spread(reference, runs, [&](uint64_t seed) { return trained({Arithmetic::Noisy, digits, seed}); }),
              kLeast);
    if (verdict.kind != Verdict::Different)
      return verdict;
  }
  verdict.why = "the program: " + verdict.why;
  return verdict;
}

Verdict Proof::check(const RandomSpec &spec, Counts &counts) const {
  setenv("ECHELON_SEED", std::to_string(spec.seed % 4).c_str(), 1); // of the order of work on an emulated GPU
  std::string path = folder + "/spec.ech";
  std::ofstream(path) << spec.text();
  writeData(spec, folder);

  Compilation many(optionsFor(spec, path));
  // The layout first: what is refused costs nothing more.
  const bool isLaidOut = compile(many, Stage::Dist);
  CompileOptions alone = oneRankFor(many.options, isLaidOut ? many.workers() : std::nullopt,
                                    isLaidOut && many.settings.sync ? many.settings.sync->workers : 0);
  if (spec.clause("precision")) // what is kept is rounded
    alone.keepsAll = false;
  Compilation one(alone);
  if (!isLaidOut) {
    std::string said = many.diagnostics.text();
    auto says = [&](const char *code) { return said.find(code) != std::string::npos; };
    // Refused is the layout, or a clause that would do nothing to this model.
    const bool isRefused = !says("E0799") && (says("E0409") || compile(one, Stage::Ech));
    return isRefused ? Verdict{Verdict::Refused, said, 0} : different(said);
  }
  Verdict verdict;
  if (many.settings.sync) {
    verdict = checkPolicy(spec, many);
  } else {
    if (!compile(one, Stage::Ech))
      return different("on one rank: " + one.diagnostics.text());
    verdict = compareOnNumbers(spec, *one.module, *many.module);
    const double onNumbers = verdict.error;
    if (verdict.kind == Verdict::Equal && compiled) {
      verdict = checkProgram(spec, *one.module, path);
      verdict.error = std::max(verdict.error, onNumbers);
    }
  }
  if (verdict.kind == Verdict::Equal) {
    count(*many.module, counts);
    for (const std::string &name : spec.clauseNames())
      ++counts["clause " + name];
  }
  return verdict;
}
