#include "test/composition/Proof.h"

#include "ir/dist/Dist.h"
#include "ir/dist/State.h"
#include "runtime/random/Philox.h"
#include "test/passes/layout/Ranks.h"
#include "tools/driver/build/Executable.h"
#include "tools/driver/compile/Compilation.h"
#include "tools/driver/start/ChildProcess.h"
#include "tools/driver/start/Mpirun.h"
#include "tools/driver/verify/Npy.h"
#include "tools/driver/verify/Trace.h"

#include <cstring>
#include <filesystem>
#include <fstream>
#include <random>
#include <sstream>

using namespace mlir;
using namespace echelon;
using namespace echelon::ech;
using namespace echelon::test;

namespace {

constexpr int kSteps = 3;
constexpr int64_t kSamples = 40, kHeldOut = 11; // the last batch of the evaluation is never full

//===- data ------------------------------------------------------------------------------------------------------===//

/// The values of an input's files, sample by sample.
std::vector<double> valuesOf(const RandomSpec &spec, const RandomInput &input, bool held) {
  std::mt19937_64 random(spec.seed * 31 + held * 7 + std::hash<std::string>()(input.name));
  int64_t count = held ? kHeldOut : kSamples;
  for (int64_t size : input.sizes)
    count *= size;
  std::normal_distribution<> normal;
  std::vector<double> values(count);
  for (double &v : values)
    v = input.below == 0 ? normal(random) : double(random() % (input.below == 1 ? 2 : input.below));
  if (input.below == 1) // no row of a mask is false throughout: nothing can be attended to there
    for (size_t i = 0; i < values.size(); i += input.sizes.back())
      values[i] = 1;
  return values;
}

void writeNpy(const std::string &path, const RandomInput &input, const std::vector<double> &values) {
  int64_t samples = values.size();
  std::string shape;
  for (int64_t size : input.sizes) {
    samples /= size;
    shape += std::to_string(size) + ", ";
  }
  const char *type = input.below == 0 ? "<f8" : input.below == 1 ? "|b1" : "<i4";
  std::string header = std::string("{'descr': '") + type + "', 'fortran_order': False, 'shape': (" +
                       std::to_string(samples) + ", " + shape + "), }";
  header.append(127 - (10 + header.size()) % 64, ' ');
  header += '\n';
  std::ofstream file(path, std::ios::binary);
  file << std::string("\x93NUMPY\x01\x00", 8) << char(header.size() & 255) << char(header.size() >> 8) << header;
  for (double v : values) {
    int32_t whole = int32_t(v);
    char truth = v != 0;
    if (input.below == 0)
      file.write(reinterpret_cast<const char *>(&v), 8);
    else if (input.below == 1)
      file.write(&truth, 1);
    else
      file.write(reinterpret_cast<const char *>(&whole), 4);
  }
}

//===- one rank, interpreted -------------------------------------------------------------------------------------===//

struct Reference {
  ModuleOp module;
  interpret::Machine machine;
  Trace trace;

  Reference(ModuleOp module, const RandomSpec &spec) : module(module) {
    machine.seed = spec.seed;
    size_t at = spec.optimizer.find("lr = ");
    machine.learningRate = std::stod(spec.optimizer.substr(at + 5));
    for (auto variable : module.getOps<VariableOp>())
      machine.values[variable.getSymName().str()] = start(variable);
    run("train.start");
  }
  /// A step that there may be, with what it writes.
  void run(const char *name) {
    auto step = module.lookupSymbol<StepOp>(name);
    if (!step)
      return;
    interpret::Results results = interpret::run(step, machine);
    for (const auto &written : results.writes)
      machine.values[written.first] = written.second;
  }
  /// As the runtime has it: a function of seed, path and place.
  interpret::Array start(VariableOp variable) {
    namespace rt = echelon::runtime;
    interpret::Array x(cast<Tensor>(variable.getType()));
    double a = variable.getA().convertToDouble(), b = variable.getB().convertToDouble();
    rt::RandomKey key{machine.seed, rt::path_hash(variable.getSymName().str()), 0};
    int64_t count = x.values.size();
    if (variable.getInit() == Distribution::Constant)
      x.values.assign(count, a);
    else
      rt::fill_random(x.values.data(), key,
                      variable.getInit() == Distribution::Normal ? rt::Distribution::Normal : rt::Distribution::Uniform,
                      a, b, {{count, 0, 1}});
    return x;
  }
  /// Inputs: `count` samples from `first` on (taken around), or the compiled program's batch.
  void feed(const RandomSpec &spec, bool held, int64_t first, int64_t count, const std::string &dumped = "") {
    for (auto op : module.getOps<InputOp>()) {
      interpret::Array x(cast<Tensor>(op.getType()));
      x.sizes[0] = count; // the batch is the first axis
      int64_t one = 1;
      for (size_t i = 1; i < x.sizes.size(); ++i)
        one *= x.sizes[i];
      x.values.assign(count * one, 1); // `valid`: every sample is real
      for (const RandomInput &input : spec.inputs) {
        if (input.name != op.getSymName())
          continue;
        std::vector<double> all =
            dumped.empty() ? valuesOf(spec, input, held) : readNpy(dumped + "/" + input.name + ".npy");
        for (int64_t i = 0; i < count * one && !all.empty(); ++i)
          x.values[i] = all[(first * one + i) % all.size()];
      }
      machine.values[op.getSymName().str()] = x;
    }
  }
  std::map<std::string, double> reports(StepOp step, const interpret::Results &results) {
    std::map<std::string, double> reports;
    bool evaluation = step.getSymName() == "evaluate";
    step.walk([&](ReportOp op) {
      std::string name = op.getName().str();
      if (op.getKind() == ReportKind::Metric && !evaluation)
        return;
      reports[op.getKind() == ReportKind::Norm   ? "grad_norm"
              : op.getKind() == ReportKind::Loss ? (evaluation ? "eval_loss" : "loss")
                                                 : name] = results.reports.at(name);
    });
    return reports;
  }
  void train(int64_t step) {
    machine.step = step;
    auto op = module.lookupSymbol<StepOp>("train");
    interpret::Results results = interpret::run(op, machine);
    Trace::Step &row = trace.steps.emplace_back();
    row.reports = reports(op, results);
    for (auto variable : module.getOps<VariableOp>()) {
      std::string name = variable.getSymName().str();
      interpret::Array &value = machine.values[name];
      if (auto written = results.writes.find(name); written != results.writes.end())
        value = written->second.inOrder(interpret::Array(cast<Tensor>(variable.getType())).axes);
      StringRef path = name;
      (path.consume_front("gradient.") ? row.gradient : row.after)[path.str()] = value.values;
    }
  }
  void evaluate(const RandomSpec &spec) {
    feed(spec, true, 0, kHeldOut);
    machine.step = -1; // what evaluation draws depends on no step
    auto op = module.lookupSymbol<StepOp>("evaluate");
    if (module.lookupSymbol<StepOp>("exchange")) { // beside the evaluation of the averages that of the parameters
      for (const auto &[report, value] : reports(op, interpret::run(op, machine)))
        trace.evaluation["last " + report] = value;
      run("exchange");
    }
    for (const auto &[report, value] : reports(op, interpret::run(op, machine)))
      trace.evaluation[report] = value;
  }
};

//===- all ranks, on numbers -------------------------------------------------------------------------------------===//

Array plain(const interpret::Array &x, Type type) {
  Array y(cast<Tensor>(type).withState({}));
  y.data = x.values;
  return y;
}

/// One step of a laid-out module from the reference's start values.
std::string runRanks(ModuleOp module, const Reference &one, Trace &trace) {
  Feed feed;
  for (auto op : module.getOps<VariableOp>())
    feed[op.getSymName().str()] = plain(one.machine.values.at(op.getSymName().str()), op.getType());
  for (auto op : module.getOps<InputOp>())
    if (auto x = one.machine.values.find(op.getSymName().str()); x != one.machine.values.end())
      feed[op.getSymName().str()] = plain(x->second, op.getType());
  Surroundings around;
  around.learningRate = one.machine.learningRate;
  around.step = 0;
  around.seed = one.machine.seed;
  Outcome outcome;
  if (std::string trouble = runStep(module, "train", feed, outcome, around); !trouble.empty())
    return trouble;
  Trace::Step &row = trace.steps.emplace_back();
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

std::string nameOf(dist::Hold hold) {
  switch (hold) {
  case dist::Hold::Whole:
    return "whole";
  case dist::Hold::Split:
    return "split";
  case dist::Hold::Sum:
    return "sum";
  case dist::Hold::Own:
    return "own";
  case dist::Hold::Cut:
    return "cut";
  case dist::Hold::Flat:
    return "flat";
  }
  return "";
}

void count(ModuleOp module, Counts &counts) {
  module.walk([&](Operation *op) {
    std::string name = op->getName().getStringRef().str();
    ++counts[name];
    if (auto map = dyn_cast<MapOp>(op))
      ++counts["ech.map " + stringifyFunction(map.getFunction()).str()];
    if (auto reduce = dyn_cast<ReduceOp>(op))
      ++counts["ech.reduce " + stringifyReduction(reduce.getKind()).str()];
    if (auto pool = dyn_cast<PoolOp>(op))
      ++counts["ech.pool " + stringifyPooling(pool.getKind()).str()];
    if (auto pool = dyn_cast<PoolGradOp>(op))
      ++counts["ech.pool_grad " + stringifyPooling(pool.getKind()).str()];
    if (isa<dist::StartOp, dist::StartEachOp>(op))
      ++counts["dist." + op->getAttrOfType<StringAttr>("kind").str()];
    if (auto partial = dyn_cast<dist::PartialOp>(op))
      ++counts["dist.partial " + stringifyPartial(partial.getKind()).str()];
    if (auto combine = dyn_cast<dist::CombineOp>(op))
      ++counts["dist.combine " + stringifyCombination(combine.getKind()).str()];
    if (auto reduce = dyn_cast<dist::AllReduceOp>(op); reduce && reduce.getReduction())
      ++counts["dist.all_reduce " + reduce.getReduction()->str()];
    if (name.rfind("dist.", 0) != 0 || isa<dist::WaitOp, dist::MaskOp, dist::PartialOp, dist::CombineOp>(op))
      return;
    ValueRange to = isa<dist::StartOp>(op) ? cast<dist::StartOp>(op).wait().getResults() : op->getResults();
    for (auto [x, y] : llvm::zip(op->getOperands(), to)) {
      dist::StateAttr before = dist::stateOf(tensor(x)), after = dist::stateOf(tensor(y));
      for (int m = 0; m < before.size(); ++m)
        if (before[m] != after[m])
          ++counts[nameOf(before[m].hold) + " -> " + nameOf(after[m].hold)];
    }
  });
}

Verdict different(const std::string &why) { return {Verdict::Different, why, INFINITY}; }

CompileOptions optionsFor(const RandomSpec &spec, const std::string &path) {
  CompileOptions options;
  options.spec = path;
  if (spec.seed % 2) { // as between machines, where gradients of loops travel alone: here small ones, too
    options.pipeline.loopBytes = 1;
    options.nodeRanks = 1;
  }
  options.doublePrecision = options.keepGradients = true;
  return options;
}

bool compile(Compilation &compilation, Stage until) {
  return compilation.parse() && compilation.resolve() && compilation.elaborate() && compilation.lower(until);
}

Verdict judge(const Trace &one, const Trace &many, const std::string &what) {
  Worst worst = compareTraces(one, many);
  if (worst.error <= kTraceTolerance)
    return {Verdict::Equal, "", worst.error};
  std::ostringstream text;
  text << what << ": " << worst.error << " in " << worst.where;
  return {Verdict::Different, text.str(), worst.error};
}

/// Start values are the same function of seed and path. What is wrong, or an empty text.
std::string compareStarts(const Reference &reference, const std::string &dumped) {
  for (auto &[name, x] : reference.machine.values) {
    if (StringRef(name).starts_with("gradient."))
      continue;
    std::vector<double> given = readNpy(dumped + "/start/" + name + ".npy");
    if (given.size() != x.values.size())
      return "the start values of " + name + " are missing";
    for (size_t i = 0; i < given.size(); ++i)
      if (std::abs(given[i] - x.values[i]) > 1e-12)
        return "the start values of " + name;
  }
  return "";
}

} // namespace

/// Builds the program, trains kSteps steps and reads what it left behind. What is wrong, or an empty text.
std::string Proof::train(const RandomSpec &spec, const std::string &path, const std::string &out, Trace &trace) const {
  std::error_code none;
  std::filesystem::remove_all(out, none);
  std::filesystem::create_directories(out, none);
  Compilation build(optionsFor(spec, path));
  int exitCode = 0;
  std::string executable = executableOf(build, exitCode);
  if (executable.empty())
    return "does not build: " + build.diagnostics.text();
  std::vector<std::string> command = launcher(transport, build.settings.ranks());
  command.insert(command.end(), {executable, "--folder", folder, "--out", out, "--transport", transport, "--deadline",
                                 "60", "--log", out + "/log", "--dump", out + "/dump", "--dump-state"});
  const CapturedOutput said;
  const int status = runProgram(command, said);
  std::filesystem::remove_all(std::filesystem::path(executable).parent_path(), none); // it is run once
  if (status != 0)
    return "the program ended with " + std::to_string(status) + ": " + said.text();
  trace = readTrace(out + "/log", out + "/dump", kSteps);
  return "";
}

/// One step by the interpreter and by all ranks, from the same values.
static Verdict compareOnNumbers(ModuleOp many, Reference &reference) {
  Trace ranks, first;
  if (std::string trouble = runRanks(many, reference, ranks); !trouble.empty())
    return different("on numbers: " + trouble);
  reference.train(0);
  first.steps = reference.trace.steps;
  Verdict verdict = judge(first, ranks, "on numbers");
  if (verdict.kind == Verdict::Equal)
    for (auto &[name, value] : reference.trace.steps[0].reports)
      if (!std::isfinite(value))
        return different(name + " is not finite on one rank");
  return verdict;
}

Verdict Proof::check(const RandomSpec &spec, Counts &counts) const {
  std::string path = folder + "/spec.ech";
  std::ofstream(path) << spec.text();
  for (const RandomInput &input : spec.inputs) {
    writeNpy(folder + "/" + input.name + ".npy", input, valuesOf(spec, input, false));
    writeNpy(folder + "/" + input.name + ".held.npy", input, valuesOf(spec, input, true));
  }

  CompileOptions alone = optionsFor(spec, path);
  alone.oneRank = alone.wholeBatch = true;
  Compilation many(optionsFor(spec, path));
  // The layout first: what is refused costs nothing more.
  if (!compile(many, Stage::Dist)) {
    std::string said = many.diagnostics.text();
    Compilation one(alone);
    bool layout = said.find("E0799") == std::string::npos && compile(one, Stage::Ech);
    return layout ? Verdict{Verdict::Refused, said, 0} : different(said);
  }
  if (auto workers = many.workers()) { // one after the other
    alone.wholeBatch = false;
    alone.microBatches = workers->all * workers->microBatches;
    alone.workers = std::move(workers);
  }
  Compilation one(alone);
  if (!compile(one, Stage::Ech))
    return different("on one rank: " + one.diagnostics.text());

  Reference reference(*one.module, spec);
  std::string out = folder + "/out", dumped = compiled ? out + "/dump" : "";
  Trace program;
  if (compiled) {
    std::string trouble = train(spec, path, out, program);
    if (trouble.empty())
      trouble = compareStarts(reference, dumped);
    if (!trouble.empty())
      return different(trouble);
  }
  auto feed = [&](int64_t step) { // what the program read, or the first batch of the files
    char batch[32];
    std::snprintf(batch, sizeof(batch), "/step-%06d/batch", int(step + 1));
    reference.feed(spec, false, 0, spec.batch, compiled ? dumped + batch : "");
  };
  feed(0);
  Verdict verdict = compareOnNumbers(*many.module, reference);
  if (verdict.kind == Verdict::Equal && compiled) {
    for (int64_t step = 1; step < kSteps; ++step) {
      feed(step);
      reference.train(step);
    }
    if (spec.evaluates())
      reference.evaluate(spec);
    double onNumbers = verdict.error;
    verdict = judge(reference.trace, program, "the program");
    verdict.error = std::max(verdict.error, onNumbers);
  }
  if (verdict.kind == Verdict::Equal)
    count(*many.module, counts);
  return verdict;
}

/// Consumed by the update, or of packings and precisions that these specs do not have.
static bool isElsewhere(StringRef op) {
  return op == "ech.gradient" || op == "ech.hand_in" || op == "ech.orthogonalize";
}

std::vector<std::string> echelon::test::expectedCounts() {
  std::vector<std::string> names;
  MLIRContext context(MLIRContext::Threading::DISABLED);
  context.loadDialect<EchDialect, dist::DistDialect>();
  for (RegisteredOperationName op : context.getRegisteredOperations())
    if (op.getDialectNamespace() == "ech" && !isElsewhere(op.getStringRef()))
      names.push_back(op.getStringRef().str());
  for (uint32_t f = 0; f <= getMaxEnumValForFunction(); ++f)
    if (auto function = symbolizeFunction(f); function && *function < Function::RoundTf32)
      names.push_back("ech.map " + stringifyFunction(*function).str());
  for (const char *name : {"ech.reduce sum",
                           "ech.reduce max",
                           "ech.reduce min",
                           "ech.pool max",
                           "ech.pool avg",
                           "ech.pool_grad max",
                           "ech.pool_grad avg",
                           "dist.slice",
                           "dist.mask",
                           "dist.all_reduce",
                           "dist.reduce_scatter",
                           "dist.all_gather",
                           "dist.all_to_all",
                           "dist.exchange",
                           "dist.broadcast",
                           "dist.start_each",
                           "dist.wait_each",
                           "dist.collect",
                           "dist.all_reduce max",
                           "dist.all_reduce min",
                           "dist.partial maximum",
                           "dist.partial sum_of_exp",
                           "dist.partial cross_entropy",
                           "dist.partial largest",
                           "dist.partial moments",
                           "dist.partial squares",
                           "dist.partial norm_sums",
                           "dist.partial rms_sums",
                           "dist.partial all_squares",
                           "dist.combine softmax",
                           "dist.combine logsumexp",
                           "dist.combine cross_entropy",
                           "dist.combine argmax",
                           "dist.combine normalize",
                           "dist.combine statistics",
                           "dist.combine rms_normalize",
                           "dist.combine normalize_grad",
                           "dist.combine rms_grad",
                           "dist.combine root",
                           "whole -> split",
                           "whole -> sum",
                           "whole -> cut",
                           "whole -> flat",
                           "sum -> whole",
                           "sum -> split",
                           "sum -> cut",
                           "sum -> flat",
                           "split -> whole",
                           "split -> split",
                           "cut -> whole",
                           "flat -> whole"})
    names.push_back(name);
  return names;
}
