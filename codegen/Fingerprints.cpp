// What a run is, by category: names and values, which are compared one by one and shown where they differ.
#include "codegen/Fingerprints.h"
#include "ir/ech/Ech.h"
#include "ir/rt/ops/Expression.h"
#include "passes/Passes.h"
#include "llvm/ADT/StringExtras.h"

using namespace mlir;
using namespace echelon;

namespace {

std::string listed(ArrayRef<std::string> words) { return llvm::join(words, ", "); }
std::string listed(ArrayRef<double> numbers) {
  return listed(llvm::map_to_vector(numbers, [](double x) { return rt::shortest(x); }));
}

/// "crop(row, column, 4) on image".
std::string described(const runtime::TransformSpec &transform) {
  std::vector<std::string> arguments = transform.axes;
  if (!transform.args.empty())
    arguments.push_back(listed(transform.args));
  return transform.kind + (arguments.empty() ? "" : "(" + listed(arguments) + ")") +
         (transform.inputs.empty() ? "" : " on " + listed(transform.inputs));
}

/// A source and those that it is made of: "next_token of text".
struct DataLines {
  std::vector<std::string> sources, paths, numbers, columns, transforms;

  void add(const runtime::DataSpec &data) {
    sources.push_back(data.kind + (data.name.empty() ? "" : " " + data.name));
    llvm::append_range(paths, data.paths);
    llvm::append_range(columns, data.columns);
    for (double x : data.args)
      numbers.push_back(rt::shortest(x));
    for (const runtime::TransformSpec &transform : data.transforms)
      transforms.push_back(described(transform));
    for (const runtime::DataSpec &child : data.children)
      add(child);
  }
};

std::string dataLines(const frontend::RunSettings &settings) {
  DataLines data;
  data.add(settings.data);
  std::string text = "source: " + llvm::join(data.sources, " of ") + "\n";
  auto line = [&](const char *name, const std::vector<std::string> &values) {
    if (!values.empty())
      text += std::string(name) + ": " + listed(values) + "\n";
  };
  std::vector<std::string> inputs;
  for (const auto &input : settings.inputs)
    inputs.push_back(input.first);
  line("path", data.paths);
  line("numbers", data.numbers);
  line("columns", data.columns);
  line("transforms", data.transforms);
  line("fills", inputs);
  line("batch", {std::to_string(settings.batch)});
  return text;
}

std::string optimizerLines(ModuleOp module, const frontend::RunSettings &settings) {
  static constexpr const char *kKinds[] = {"sgd", "adam", "adamw"};
  static constexpr const char *kSchedules[] = {"constant", "cosine", "linear", "wsd", "steps_at"};
  std::string text;
  for (auto [i, optimizer] : llvm::enumerate(settings.optimizers)) {
    const frontend::Schedule &lr = optimizer.schedule;
    const std::string which = settings.optimizers.size() == 1 ? "" : "optimize line " + std::to_string(i + 1) + " ";
    auto line = [&](const char *name, const std::string &value) { text += which + name + ": " + value + "\n"; };
    line("kind", kKinds[optimizer.kind]);
    std::string patterns;
    for (const frontend::Pattern &pattern : optimizer.patterns)
      patterns += (patterns.empty() ? "" : ", ") + pattern.text;
    if (!patterns.empty())
      line("on", patterns);
    line("lr schedule", kSchedules[lr.kind]);
    line("lr peak", rt::shortest(lr.peak));
    line("lr warmup", std::to_string(lr.warmup));
    if (lr.kind == frontend::Schedule::StepsAt) {
      std::string drops;
      for (int64_t drop : lr.drops)
        drops += (drops.empty() ? "" : ", ") + std::to_string(drop);
      line("lr drops", drops);
      line("lr by", rt::shortest(lr.by));
    } else if (lr.kind != frontend::Schedule::Constant) {
      line("lr floor", rt::shortest(lr.floor));
      line("lr ends at step", std::to_string(settings.steps));
    }
    if (lr.kind == frontend::Schedule::Wsd)
      line("lr decay", std::to_string(lr.decaySteps));
    if (optimizer.kind == frontend::OptimizerLine::Sgd) {
      line("momentum", rt::shortest(optimizer.momentum));
      if (optimizer.momentum != 0)
        line("nesterov", optimizer.nesterov ? "true" : "false");
    } else {
      line("betas", listed({optimizer.beta1, optimizer.beta2}));
      line("epsilon", rt::shortest(optimizer.epsilon));
    }
    line("decay", rt::shortest(optimizer.decay));
  }
  text += "clip: " + (settings.clip ? rt::shortest(*settings.clip) : std::string("none")) + "\n";
  auto first = [&](StringRef path) -> const frontend::OptimizerLine * {
    for (const frontend::OptimizerLine &line : settings.optimizers)
      if (line.patterns.empty() ||
          llvm::any_of(line.patterns, [&](const auto &pattern) { return matchesPattern(pattern.text, path); }))
        return &line;
    return nullptr;
  };
  for (auto variable : module.getOps<ech::VariableOp>())
    if (variable.getKind() == ech::VariableKind::Param && variable.getDecayed())
      if (const frontend::OptimizerLine *line = first(variable.getSymName()); line && line->decay != 0)
        text += ("decay of " + variable.getSymName() + ": yes\n").str();
  return text;
}

std::string layoutLines(const frontend::RunSettings &settings) {
  std::string text;
  for (const frontend::MeshAxisSettings &axis : settings.mesh) {
    text += axis.name + ": " + std::to_string(axis.size);
    for (const auto &entry : axis.list)
      text += " " + entry.axis;
    text += std::string(axis.storesOptimizer ? " optimizer" : "") + "\n";
  }
  return text + "micro batches: " + std::to_string(settings.microBatches) + "\n";
}

} // namespace

std::vector<std::pair<std::string, std::string>>
codegen::fingerprints(ModuleOp module, const frontend::RunSettings &settings, const std::string &meaning) {
  return {{"model", meaning},
          {"data", dataLines(settings)},
          {"seed", "seed: " + std::to_string(settings.seed) + "\n"},
          {"optimizer", optimizerLines(module, settings)},
          {"layout", layoutLines(settings)}};
}
