#include "test/composition/Reference.h"

#include "ir/run/Run.h"
#include "runtime/random/Philox.h"
#include "tools/driver/verify/Npy.h"

#include "llvm/ADT/STLExtras.h"

#include <cmath>
#include <cstring>
#include <fstream>

using namespace mlir;
using namespace echelon;
using namespace echelon::ech;
using namespace echelon::test;

namespace {

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
  if (input.below == 0 && held) // nothing that makes the loss of an evaluation infinite
    for (double &v : values)
      v = std::clamp(v, -2.5, 2.5);
  if (input.below == 1) // no row of a mask is false throughout: nothing can be attended to there
    for (size_t i = 0; i < values.size(); i += input.sizes.back())
      values[i] = 1;
  return values;
}

void writeNpy(const std::string &path, const RandomInput &input, const std::vector<double> &values, bool isDouble) {
  int64_t samples = values.size();
  std::string shape;
  for (int64_t size : input.sizes) {
    samples /= size;
    shape += std::to_string(size) + ", ";
  }
  const char *type = input.below == 0 ? (isDouble ? "<f8" : "<f4") : input.below == 1 ? "|b1" : "<i4";
  std::string header = std::string("{'descr': '") + type + "', 'fortran_order': False, 'shape': (" +
                       std::to_string(samples) + ", " + shape + "), }";
  header.append(127 - (10 + header.size()) % 64, ' ');
  header += '\n';
  std::ofstream file(path, std::ios::binary);
  file << std::string("\x93NUMPY\x01\x00", 8) << char(header.size() & 255) << char(header.size() >> 8) << header;
  for (double v : values) {
    int32_t whole = int32_t(v);
    char truth = v != 0;
    const auto half = float(v);
    if (input.below == 0 && isDouble)
      file.write(reinterpret_cast<const char *>(&v), 8);
    else if (input.below == 0)
      file.write(reinterpret_cast<const char *>(&half), 4);
    else if (input.below == 1)
      file.write(&truth, 1);
    else
      file.write(reinterpret_cast<const char *>(&whole), 4);
  }
}

//===- arithmetic ------------------------------------------------------------------------------------------------===//

struct Arithmetical : interpret::Machine {
  explicit Arithmetical(Arithmetic how) : how(how), random(how.seed) {}

  void keep(Operation *op, std::vector<interpret::Array> &results) override {
    const Type type = interpret::roundsTo(op);
    if (how.kind == Arithmetic::Rounded || how.kind == Arithmetic::Jittered)
      Machine::keep(op, results);
    if (how.noise != 0 && !type && op->getNumOperands() > 0)
      for (auto [result, x] : llvm::zip(op->getResults(), results))
        if (tensor(result).isFloat())
          for (double &v : x.values)
            v += std::isfinite(v) ? v * how.noise * uniform() : 0;
    if (how.kind == Arithmetic::Noisy && type)
      for (double &v : results[0].values)
        if (std::isfinite(v))
          v += halfDigit(v, type) * uniform();
  }

private:
  double uniform() { return std::uniform_real_distribution<>(-1, 1)(random); }
  /// The most that rounding moves a number by.
  static double halfDigit(double x, Type type) {
    const auto &semantics = cast<FloatType>(type).getFloatSemantics();
    const int least = llvm::APFloat::semanticsMinExponent(semantics);
    const int exponent = x == 0 ? least : std::max(std::ilogb(x), least);
    return x == 0 ? 0 : std::ldexp(1.0, exponent - int(llvm::APFloat::semanticsPrecision(semantics)));
  }
  const Arithmetic how;
  std::mt19937_64 random;
};

} // namespace

void echelon::test::writeData(const RandomSpec &spec, const std::string &folder) {
  const Clause *precision = spec.clause("precision");
  for (const RandomInput &input : spec.inputs)
    for (bool held : {false, true})
      writeNpy(folder + "/" + input.name + (held ? ".held.npy" : ".npy"), input, valuesOf(spec, input, held),
               !precision);
}

bool echelon::test::isFinite(const Trace::Step &row) {
  return llvm::all_of(row.reports, [](const auto &report) { return std::isfinite(report.second); });
}

Reference::Reference(ModuleOp module, const RandomSpec &spec, Arithmetic arithmetic)
    : module(module), spec(spec), machineOf(std::make_unique<Arithmetical>(arithmetic)) {
  interpret::Machine &machine = *machineOf;
  machine.seed = spec.seed;
  size_t at = spec.optimizer.find("lr = ");
  machine.learningRate = std::stod(spec.optimizer.substr(at + 5));
  for (auto variable : module.getOps<VariableOp>())
    machine.values[variable.getSymName().str()] = start(variable);
  run("train.start");
}
Reference::~Reference() = default;

/// A step that there may be, with what it writes.
void Reference::run(const char *name) {
  auto step = module.lookupSymbol<StepOp>(name);
  if (!step)
    return;
  interpret::Results results = interpret::run(step, machine());
  for (const auto &written : results.writes)
    machine().values[written.first] = written.second;
}

/// As the runtime has it: a function of seed, path and place.
interpret::Array Reference::start(VariableOp variable) {
  namespace rt = echelon::runtime;
  interpret::Array x(cast<Tensor>(variable.getType()));
  double a = variable.getA().convertToDouble(), b = variable.getB().convertToDouble();
  rt::RandomKey key{machine().seed, rt::path_hash(variable.getSymName().str()), 0};
  int64_t count = x.values.size();
  if (variable.getInit() == Distribution::Constant)
    x.values.assign(count, a);
  else
    rt::fill_random(x.values.data(), key,
                    variable.getInit() == Distribution::Normal ? rt::Distribution::Normal : rt::Distribution::Uniform,
                    a, b, {{count, 0, 1}});
  return x;
}

void Reference::feed(bool held, int64_t first, int64_t count, const std::string &dumped) {
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
    machine().values[op.getSymName().str()] = x;
  }
}

std::map<std::string, double> Reference::reports(StepOp step, const interpret::Results &results) {
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

/// What a step makes, as if it were gone on with.
Trace::Step Reference::row(const interpret::Results &results) {
  Trace::Step row;
  row.reports = reports(module.lookupSymbol<StepOp>("train"), results);
  for (auto variable : module.getOps<VariableOp>()) {
    std::string name = variable.getSymName().str();
    interpret::Array value = machine().values[name];
    if (auto written = results.writes.find(name); written != results.writes.end())
      value = written->second.inOrder(interpret::Array(cast<Tensor>(variable.getType())).axes);
    StringRef path = name;
    (path.consume_front("gradient.") ? row.gradient : row.after)[path.str()] = value.values;
  }
  return row;
}

Trace::Step Reference::onlyStep(int64_t step) {
  machine().step = step;
  return row(interpret::run(module.lookupSymbol<StepOp>("train"), machine()));
}

/// False: the run ends, since the step is not finite.
bool Reference::trainStep(int64_t step, Course &course) {
  machine().step = step;
  const Clause *precision = spec.clause("precision");
  const bool isDynamic = precision && precision->name == "precision fp16_dynamic";
  const bool isGiven = int64_t(course.skipped.size()) > step;
  if (precision)
    machine().lossScale = isGiven ? course.scales[step] : machine().lossScale;
  interpret::Results results = interpret::run(module.lookupSymbol<StepOp>("train"), machine());
  Trace::Step made = row(results);
  if (!isGiven) {
    const bool overflows = isDynamic && machine().lossScale > 1 && made.reports.count("grad_norm") &&
                           !std::isfinite(made.reports.at("grad_norm"));
    if (!isFinite(made) && !overflows && !spec.clause("on"))
      return false;
    course.skipped.push_back(!isFinite(made));
    course.scales.push_back(machine().lossScale);
    if (overflows)
      machine().lossScale = std::max(machine().lossScale / 2, 1.0);
  }
  if (course.skipped[step]) {
    ++machine().skipped;
    interpret::Results nothing;
    nothing.reports = results.reports;
    made = row(nothing);
    made.isSkipped = true;
  } else {
    for (const auto &[name, value] : results.writes)
      machine().values[name] =
          value.inOrder(interpret::Array(cast<Tensor>(module.lookupSymbol<VariableOp>(name).getType())).axes);
  }
  for (auto report = made.reports.begin(); report != made.reports.end();) // the log has null, or a number next to it
    report = std::isfinite(report->second) ? std::next(report) : made.reports.erase(report);
  if (precision && run::only<run::LossScaleOp>(module))
    made.reports["loss_scale"] = course.scales[step];
  trace.steps.push_back(made);
  return true;
}

void Reference::train(const std::string &dumped, Course &course) {
  for (int64_t step = 0; step < spec.steps(); ++step) {
    char batch[32];
    std::snprintf(batch, sizeof(batch), "/step-%06d/batch", int(step + 1));
    feed(false, 0, spec.batch, dumped + batch);
    if (!trainStep(step, course))
      return;
    const bool isLast = step + 1 == spec.steps();
    if (spec.evaluates() && ((step + 1) % spec.evaluatesEvery() == 0 || isLast) && evaluate())
      return;
  }
}

/// True: the clause `until` is met.
bool Reference::evaluate() {
  feed(true, 0, kHeldOut);
  machine().step = -1; // what evaluation draws depends on no step
  auto op = module.lookupSymbol<StepOp>("evaluate");
  const bool hasAverages = bool(module.lookupSymbol<StepOp>("exchange"));
  if (hasAverages) { // beside the evaluation of the averages that of the parameters
    for (const auto &[report, value] : reports(op, interpret::run(op, machine())))
      trace.evaluation["last " + report] = value;
    run("exchange");
  }
  for (const auto &[report, value] : reports(op, interpret::run(op, machine())))
    trace.evaluation[report] = value;
  if (hasAverages)
    run("exchange");
  const Clause *until = spec.clause("until");
  if (!until)
    return false;
  const double loss = trace.evaluation.at("eval_loss"), bound = std::stod(until->text.substr(until->text.rfind(' ')));
  return until->text.find('>') == std::string::npos ? loss < bound : loss > bound;
}
