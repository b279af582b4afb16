// What a run is, by category: names and values, which are compared one by one and shown where they differ.
#include "codegen/Fingerprints.h"
#include "ir/dist/State.h"
#include "ir/ech/Decimal.h"
#include "ir/ech/Ech.h"
#include "ir/rt/Rt.h"
#include "ir/run/Run.h"
#include "passes/compress/Workers.h"
#include "passes/update/Rule.h"
#include "llvm/ADT/StringExtras.h"

using namespace mlir;
using namespace echelon;

namespace {

std::string listed(ArrayRef<std::string> words) { return llvm::join(words, ", "); }
std::string listed(ArrayRef<double> numbers) {
  return listed(llvm::map_to_vector(numbers, [](double x) { return shortestDecimal(x); }));
}

void append(std::vector<std::string> &list, ArrayAttr names) {
  for (StringRef name : names ? ech::strings(names) : SmallVector<StringRef>())
    list.push_back(name.str());
}

/// "crop(row, column, 4) on image".
std::string described(run::TransformAttr transform) {
  std::vector<std::string> arguments, inputs;
  append(arguments, transform.getAxes());
  append(inputs, transform.getInputs());
  if (transform.getArgs())
    arguments.push_back(listed(transform.getArgs().asArrayRef()));
  return transform.getKind().str() + (arguments.empty() ? "" : "(" + listed(arguments) + ")") +
         (inputs.empty() ? "" : " on " + listed(inputs));
}

/// A source and those that it is made of: "next_token of text".
struct DataLines {
  std::vector<std::string> sources, paths, numbers, columns, transforms;

  void add(run::SourceAttr data) {
    sources.push_back(data.getKind().str() + (data.getName() ? " " + data.getName().str() : ""));
    append(paths, data.getPaths());
    append(columns, data.getColumns());
    if (data.getArgs())
      for (double x : data.getArgs().asArrayRef())
        numbers.push_back(shortestDecimal(x));
    if (data.getTransforms())
      for (auto transform : data.getTransforms().getAsRange<run::TransformAttr>())
        transforms.push_back(described(transform));
    if (data.getOf())
      for (auto child : data.getOf().getAsRange<run::SourceAttr>())
        add(child);
  }
};

std::string dataLines(ModuleOp module) {
  auto op = run::only<run::DataOp>(module);
  DataLines data;
  data.add(op.getSource());
  std::string text = "source: " + llvm::join(data.sources, " of ") + "\n";
  auto line = [&](const char *name, const std::vector<std::string> &values) {
    if (!values.empty())
      text += std::string(name) + ": " + listed(values) + "\n";
  };
  std::vector<std::string> inputs;
  append(inputs, op.getInputs());
  line("path", data.paths);
  line("numbers", data.numbers);
  line("columns", data.columns);
  line("transforms", data.transforms);
  line("fills", inputs);
  line("batch", {std::to_string(run::only<run::TrainOp>(module).getBatch())});
  return text;
}

/// A learning rate, by `line(name, value)`.
void rateLines(run::ScheduleAttr rate, int64_t steps,
               function_ref<void(const std::string &, const std::string &)> line) {
  line("lr schedule", run::stringifyScheduleKind(rate.getKind()).str());
  line("lr peak", shortestDecimal(rate.getPeak().getValueAsDouble()));
  line("lr warmup", std::to_string(rate.getWarmup()));
  if (rate.getDrops()) {
    line("lr drops",
         llvm::join(llvm::map_range(rate.getDrops().asArrayRef(), [](int64_t drop) { return std::to_string(drop); }),
                    ", "));
    line("lr by", shortestDecimal(rate.getBy().getValueAsDouble()));
  }
  if (rate.getFloor()) {
    line("lr floor", shortestDecimal(rate.getFloor().getValueAsDouble()));
    line("lr ends at step", std::to_string(steps));
  }
  if (rate.getDecay())
    line("lr decay", std::to_string(rate.getDecay()));
}

/// Who packs, as a run that goes on with other workers reads it (runtime/snapshot/OtherWorkers.cpp).
std::string packedBy(ModuleOp module) {
  SmallVector<int64_t> counts{1, 1};
  if (compress::clauseBetweenWorkers(module)) {
    auto policy = run::only<run::SyncOp>(module);
    counts = {int64_t(policy.getWorkers()), int64_t(policy.getK())};
    if (auto parts = module->getAttrOfType<DenseI64ArrayAttr>(ech::kPackedBy)) // of each worker
      counts = {counts[0] * parts[0], counts[1] * parts[1]};
  } else if (auto known = module->getAttrOfType<DenseI64ArrayAttr>(ech::kPackedBy)) {
    counts.assign(known.asArrayRef().begin(), known.asArrayRef().end());
  }
  return ("packed by: " + Twine(counts[0]) + " workers, means of " + Twine(counts[1]) + "\n").str();
}

std::string optimizerLines(ModuleOp module) {
  const int64_t steps = run::only<run::TrainOp>(module).getSteps();
  SmallVector<run::OptimizeOp> optimizers(module.getOps<run::OptimizeOp>());
  std::string text;
  for (auto [i, optimizer] : llvm::enumerate(optimizers)) {
    const std::string which = optimizers.size() == 1 ? "" : "optimize line " + std::to_string(i + 1) + " ";
    auto line = [&](const std::string &name, const std::string &value) { text += which + name + ": " + value + "\n"; };
    line("kind", optimizer.getRule().str());
    if (!optimizer.getAll())
      line("on", llvm::join(ech::strings(optimizer.getPatterns()), ", "));
    rateLines(optimizer.getRate(), steps, line);
    for (const auto &[name, value] : update::findRule(optimizer.getRule())->describe(optimizer))
      line(name, value);
    line("decay", shortestDecimal(optimizer.number("decay")));
  }
  auto clip = module->getAttrOfType<FloatAttr>(ech::kClip);
  text += "clip: " + (clip ? shortestDecimal(clip.getValueAsDouble()) : std::string("none")) + "\n";
  if (auto precision = run::only<run::PrecisionOp>(module)) {
    auto word = [](Type type) -> std::string {
      return type.isTF32()                 ? "tf32"
             : isa<Float8E4M3FNType>(type) ? "fp8"
                                           : runtime::namesOf(*rt::elementOf(type)).language;
    };
    if (!precision.getCompute().isF32())
      text += "rounding: " + word(precision.getCompute()) + "\n";
    if (auto params = precision.getParams())
      text += "params: " + word(*params) + "\n";
    if (auto reduce = precision.getReduce())
      text += "summands travel in: " + word(*reduce) + "\n";
    if (auto keep = precision.getKeep())
      text += "kept in fp32: " + llvm::join(ech::strings(*keep), ", ") + "\n";
  }
  if (auto scale = run::only<run::LossScaleOp>(module))
    text += "loss scale: " + (scale.getDynamic() ? "dynamic" : std::to_string(scale.getStart())) + "\n";
  if (auto sync = run::only<run::SyncOp>(module)) {
    text += ("sync: " + sync.getPolicy() + " " + Twine(sync.getK()) + " of " + Twine(sync.getWorkers())).str();
    if (sync.getStalenessAttr().getInt() != -1)
      text += " staleness " + std::to_string(int64_t(sync.getStaleness()));
    text += sync.getDamp() ? " damp\n" : "\n";
    if (auto numbers = sync.getNumbers())
      text += "delay: " + sync.getDelay().str() + " " + listed(*numbers) + "\n";
    if (sync.isLocal())
      text += "meetings: every " + std::to_string(sync.getEvery()) + " steps\n";
    if (!sync.getOuter().empty())
      text += "outer optimizer: " + sync.getOuter().str() + " " + shortestDecimal(sync.getRate().convertToDouble()) +
              " momentum " + shortestDecimal(sync.getMomentum().convertToDouble()) + "\n";
  }
  if (auto compress = run::only<run::CompressOp>(module))
    text += ("compression: " + Twine(compress.getDeltas() ? "deltas " : "") + compress.getKind()).str() + " " +
            shortestDecimal(compress.getAmount().convertToDouble()) + (compress.getFeedback() ? " feedback" : "") +
            "\n" + packedBy(module);
  if (auto average = run::only<run::AverageOp>(module))
    text += "average: ema " + shortestDecimal(average.getDecay().convertToDouble()) + "\n";
  for (auto variable : module.getOps<ech::VariableOp>())
    if (variable.getKind() == ech::VariableKind::Param && variable.getDecayed())
      if (auto line = update::lineOf(module, variable.getSymName());
          line && (line.number("decay") != 0 || update::findRule(line.getRule())->setsWeightsApart))
        text += ("decay of " + variable.getSymName() + ": yes\n").str();
  return text;
}

std::string layoutLines(ModuleOp module) {
  std::string text;
  if (dist::MeshAttr mesh = dist::meshOf(module))
    for (const dist::MeshAxis &axis : mesh.getAxes()) {
      if (axis.size == 1) // splits nothing
        continue;
      text += (axis.name.getValue() + ": " + Twine(axis.size)).str();
      for (StringRef name : ech::strings(axis.list)) {
        text += (" " + name).str();
        if (const dist::OwnerMap map = mesh.mapOf(mesh.index(axis.name), name); !map.isBlocks())
          text += " (" + dist::spell(map) + ")";
      }
      for (StringRef what : dist::storedOver(module, axis.name))
        text += (" " + what).str();
      text += "\n";
    }
  auto micro = module->getAttrOfType<IntegerAttr>(ech::kMicroBatches);
  return text + "micro batches: " + std::to_string(micro ? micro.getInt() : 1) + "\n";
}
} // namespace

std::vector<std::pair<std::string, std::string>> codegen::fingerprints(ModuleOp module) {
  return {{"model", run::only<run::MathematicsOp>(module).getText().str()},
          {"data", dataLines(module)},
          {"seed", "seed: " + std::to_string(run::only<run::TrainOp>(module).getSeed()) + "\n"},
          {"optimizer", optimizerLines(module)},
          {"layout", layoutLines(module)}};
}
