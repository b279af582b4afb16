// What a train block says, against what the data and the model's parameters are.
#include "tools/driver/compile/Compilation.h"

#include "ir/ech/Ech.h"
#include "passes/Passes.h"
#include "runtime/data/File.h"
#include "llvm/ADT/STLExtras.h"

#include <algorithm>
#include <filesystem>

using namespace echelon::frontend;

namespace echelon {

using runtime::DataSpec;
using runtime::kUnlimited;

/// A few of the names, and how many more there are.
static std::string shownSome(std::vector<std::string> names) {
  const size_t all = names.size();
  if (all > 3) {
    names.resize(3);
    names.push_back(std::to_string(all - 3) + " more");
  }
  return listed(names);
}

/// Whether everything in it can be opened: `mix` and `pack` cannot yet.
static bool isBuilt(const DataSpec &spec) {
  return !spec.kind.empty() && spec.kind != "mix" && spec.kind != "pack" && llvm::all_of(spec.children, isBuilt);
}

/// Where a file of the data is not there: what may have been meant.
static std::string missingHint(const DataSpec &spec, const std::string &folder) {
  namespace fs = std::filesystem;
  for (const DataSpec &child : spec.children)
    if (std::string hint = missingHint(child, folder); !hint.empty())
      return hint;
  for (const std::string &path : spec.paths) {
    fs::path file = runtime::resolvePath(path, folder);
    std::error_code none;
    if (fs::exists(file, none))
      continue;
    std::vector<std::string> there;
    fs::path parent = file.parent_path().empty() ? fs::path(".") : file.parent_path();
    for (fs::directory_iterator it(parent, none), end; !none && it != end; it.increment(none))
      there.push_back(it->path().filename().string());
    std::sort(there.begin(), there.end());
    std::string hint = didYouMean(file.filename().string(), there);
    return !hint.empty() || fs::path(path).is_absolute() ? hint : "; relative paths start at the spec's folder";
  }
  return "";
}

std::string Compilation::openSource(const DataSpec &spec, SourceRange range, runtime::DataDescription &found) {
  using runtime::ElementType;
  std::vector<runtime::InputShape> shapes;
  for (const InputFacts &input : facts.inputs) {
    runtime::InputShape shape;
    shape.name = input.name;
    for (const auto &[name, size] : input.axes)
      if (name != facts.batchAxis) {
        shape.dims.push_back(size);
        shape.axes.push_back(name);
      }
    const ElementType real = settings.doublePrecision ? ElementType::Float64 : ElementType::Float32;
    shape.type = input.element == InputStatement::Float  ? real
                 : input.element == InputStatement::Bool ? ElementType::UInt8
                                                         : ElementType::Int32;
    shape.below = input.below;
    shape.belowAxis = input.belowAxis;
    shapes.push_back(shape);
  }
  found = runtime::describe(spec, shapes, folder());
  if (found.error.text.empty())
    return "";
  found.error.text += missingHint(spec, folder());
  int input = found.error.input;
  bool ownInputs = range.offset == settings.dataRange.offset;
  if (ownInputs && input >= 0 && input < static_cast<int>(settings.inputs.size()))
    range = settings.inputs[input].second;
  if (ownInputs && found.error.transform >= 0)
    range = settings.transformRanges[static_cast<size_t>(found.error.transform)];
  diagnostics.error(Code::E0504, range, found.error.text);
  return found.error.text;
}

/// Files of the data that are not there, as the spec writes them.
static void addMissing(const DataSpec &spec, const std::string &folder, std::vector<std::string> &missing) {
  for (const DataSpec &child : spec.children)
    addMissing(child, folder, missing);
  std::error_code none;
  for (const std::string &path : spec.paths)
    if (!std::filesystem::exists(runtime::resolvePath(path, folder), none))
      missing.push_back(path);
}

/// Whether files of a source are missing, and nobody minds: what is planned is the model's alone.
bool Compilation::isWithout(const DataSpec &spec, SourceRange range) {
  std::vector<std::string> missing;
  if (options.needsNoData)
    addMissing(spec, folder(), missing);
  if (missing.empty())
    return false;
  for (const std::string &path : missing)
    if (!llvm::is_contained(missingData, path))
      missingData.push_back(path);
  for (std::string &path : missing)
    path = quoted(path);
  diagnostics.warning(
      Code::E0504, range,
      shownSome(missing) +
          (missing.size() == 1 ? " is not there: planned without, its" : " are not there: planned without, their") +
          " form and values being taken on trust");
  return true;
}

bool Compilation::checkData() {
  if (!isBuilt(settings.data))
    return true;
  runtime::DataDescription found;
  missingData.clear();
  if (isWithout(settings.data, settings.dataRange)) {
    for (const EvaluationSettings &evaluation : settings.evaluations)
      if (evaluation.source)
        isWithout(*evaluation.source, evaluation.range);
    if (!settings.lengthEpochs)
      return setLength(0);
    diagnostics.error(Code::E0409, settings.lengthRange,
                      "how many steps an epoch has is known with the data alone; say steps or samples");
    return false;
  }
  if (!openSource(settings.data, settings.dataRange, found).empty())
    return false;
  bool length = setLength(found.trainSize);
  return checkEvaluations(found) && length;
}

void Compilation::checkFiles() {
  auto look = [&](auto &self, const DataSpec &spec, SourceRange range) -> void {
    for (const DataSpec &child : spec.children)
      self(self, child, range);
    for (const std::string &path : spec.paths) {
      const std::string resolved = runtime::resolvePath(path, folder());
      std::vector<std::string> names;
      runtime::FileBytes file;
      const std::string error = spec.kind == "mnist" || spec.kind == "cifar10" ? runtime::listFolder(resolved, names)
                                                                               : runtime::readFile(resolved, file, 1);
      if (!error.empty())
        diagnostics.error(Code::E0504, range, error + missingHint(spec, folder()));
    }
  };
  look(look, settings.data, settings.dataRange);
  for (const EvaluationSettings &evaluation : settings.evaluations)
    if (evaluation.source)
      look(look, *evaluation.source, evaluation.range);
}

bool Compilation::setLength(int64_t trainSize) {
  if (!settings.lengthEpochs && !settings.lengthSamples)
    return true;
  size_t before = diagnostics.errorCount();
  if (settings.lengthEpochs) {
    if (trainSize == kUnlimited) {
      diagnostics.error(Code::E0409, settings.lengthRange,
                        "synthetic data has no end, so epochs of it are no length; say steps or samples");
      return false;
    }
    if (__builtin_mul_overflow(trainSize, settings.lengthEpochs, &settings.lengthSamples) ||
        settings.lengthSamples > int64_t(1) << 53) {
      diagnostics.error(Code::E0704, settings.lengthRange,
                        std::to_string(settings.lengthEpochs) + " epochs of " + std::to_string(trainSize) +
                            " samples are more than can be counted, 2^53");
      return false;
    }
  }
  const int64_t samples = std::max<int64_t>(settings.samplesAStep(), 1);
  settings.steps = (settings.lengthSamples + samples - 1) / samples; // a part of a step is a step
  if (settings.lengthEpochs)                                         // samples have been checked with the block
    checkLength(settings, diagnostics);
  return diagnostics.errorCount() == before;
}

/// What to say where the data of the train clause holds nothing out.
static std::string holdoutHint(const DataSpec &data, int64_t windows) {
  if (data.kind != "next_token")
    return "; name other data, as in evaluate test on " + data.kind + "(…) every 100 steps";
  const double share = data.args.empty() ? 0 : data.args[0];
  if (share == 0)
    return "; say a holdout, as in holdout = 10%";
  char percent[40];
  std::snprintf(percent, sizeof percent, ": %.4g%% of ", share * 100);
  std::string remedy = "take a longer text";
  if (windows > 1)
    remedy = windows > 100 ? "take a larger holdout"
                           : "from " + std::to_string((100 + windows - 1) / windows) + "% on it is one";
  return percent + (windows == 1 ? "one window" : std::to_string(windows) + " windows") + " is none; " + remedy;
}

/// An evaluation reads the columns that training reads, in any order; where both name them, in one order.
static std::string inheritColumns(DataSpec &source, const DataSpec &training, const std::vector<std::string> &columns) {
  if (source.kind != "csv" || training.kind != "csv")
    return "";
  if (source.columns.empty()) {
    source.columns = columns;
    if (training.columns.empty())
      source.args = {1}; // it has no others
    return "";
  }
  if (source.columns == columns ||
      !std::is_permutation(source.columns.begin(), source.columns.end(), columns.begin(), columns.end()))
    return "";
  return "the columns are those of the data clause in another order, and would fill other places of the inputs; leave "
         "columns out: they are found by their names";
}

/// What is normalized in training is in evaluation, whatever source its samples come from.
static void inheritTransforms(DataSpec &source, const DataSpec &training,
                              const std::vector<runtime::TransformSpec> &resolved) {
  if (source.kind == training.kind)
    return;
  source.transforms.clear();
  for (const runtime::TransformSpec &transform : resolved)
    if (transform.kind == "normalize")
      source.transforms.push_back(transform);
}

bool Compilation::checkEvaluations(const runtime::DataDescription &training) {
  size_t before = diagnostics.errorCount();
  for (EvaluationSettings &evaluation : settings.evaluations) {
    runtime::DataDescription found;
    int64_t size = training.heldOutSize;
    if (evaluation.source) {
      if (const std::string wrong = inheritColumns(*evaluation.source, settings.data, training.columns);
          !wrong.empty()) {
        diagnostics.error(Code::E0504, evaluation.range, wrong);
        continue;
      }
      inheritTransforms(*evaluation.source, settings.data, training.transforms);
      if (isWithout(*evaluation.source, evaluation.range))
        continue;
      if (!isBuilt(*evaluation.source) || !openSource(*evaluation.source, evaluation.range, found).empty())
        continue;
      size = found.heldOutSize ? found.heldOutSize : found.trainSize; // as Trainer::evaluate reads it
    } else if (size == 0) {
      diagnostics.error(Code::E0504, evaluation.range,
                        settings.data.kind + " holds no samples out to evaluate on" +
                            holdoutHint(settings.data, training.trainSize));
    }
    if (size == kUnlimited && evaluation.batches == 0)
      diagnostics.error(Code::E0409, evaluation.range,
                        "synthetic data has no end; say how many batches to evaluate on, as in on 20 batches");
    const int64_t batch = std::max<int64_t>(settings.batch, 1), all = size / batch + (size % batch != 0);
    if (size > 0 && size != kUnlimited && evaluation.batches > all && !options.batch)
      diagnostics.warning(Code::E0506, evaluation.range,
                          "there are " + std::to_string(size) + " samples to evaluate on, " + std::to_string(all) +
                              (all == 1 ? " batch" : " batches") + " of " + std::to_string(batch) + ", and not " +
                              std::to_string(evaluation.batches) + "; all are taken");
  }
  return diagnostics.errorCount() == before;
}

bool Compilation::checkUntil() {
  if (!settings.until)
    return true;
  const UntilSettings &until = *settings.until;
  std::vector<std::string> known{"eval_loss"};
  size_t losses = 0;
  if (auto step = module->lookupSymbol<ech::StepOp>("evaluate"))
    step.walk([&](ech::ReportOp report) {
      const bool isLoss = report.getKind() != ech::ReportKind::Metric;
      losses += isLoss;
      if (std::string name = report.getName().str(); report.getKind() != ech::ReportKind::Loss)
        known.push_back(name);
    });
  if (losses > 1)
    known.emplace_back(kTotalLoss);
  if (llvm::is_contained(known, until.metric))
    return true;
  const auto training = llvm::find_if(facts.metrics, [&](const ModelFacts::Metric &metric) {
    return metric.name.text == until.metric && !metric.inEvaluation;
  });
  std::string why;
  if (training != facts.metrics.end())
    why = "metric " + quoted(until.metric) +
          " is where `training` is true alone, and 'until' is looked at in evaluations";
  else if (until.metric == "loss")
    why = "'loss' is that of a training step; that of an evaluation is called 'eval_loss'";
  else
    why = "evaluations of " + settings.model->name.text + " have no " + quoted(until.metric);
  std::string hint = training != facts.metrics.end() || until.metric == "loss" ? "" : didYouMean(until.metric, known);
  if (hint.empty())
    hint = "; they have " + listed(known);
  diagnostics.error(Code::E0412, until.metricRange, why + hint);
  return false;
}

/// What may have been meant by a pattern that no parameter matches.
static std::string patternHint(const std::string &pattern, const std::vector<std::string> &parameters) {
  const std::string inside = pattern + ".*";
  if (llvm::any_of(parameters, [&](const std::string &path) { return matchesPattern(inside, path); }))
    return "; its own are " + quoted(inside);
  const std::string meant = didYouMean(pattern, parameters);
  return meant.empty() ? (parameters.size() == 1 ? "; there is " : "; there are ") + shownSome(parameters) : meant;
}

bool Compilation::checkPatterns() {
  std::vector<std::string> parameters;
  if (module)
    for (auto variable : module->getOps<ech::VariableOp>())
      if (variable.getKind() == ech::VariableKind::Param)
        parameters.push_back(variable.getSymName().str());
  auto matches = [](const Pattern &pattern, const std::string &path) { return matchesPattern(pattern.text, path); };
  size_t before = diagnostics.errorCount();
  std::vector<std::string> left = parameters;
  bool hasAll = false;
  auto matchSome = [&](const std::vector<Pattern> &patterns) {
    for (const Pattern &pattern : patterns)
      if (llvm::none_of(parameters, [&](const std::string &path) { return matches(pattern, path); }))
        diagnostics.error(Code::E0411, pattern.range,
                          "no parameter matches " + quoted(pattern.text) + patternHint(pattern.text, parameters));
  };
  matchSome(settings.precision.keep);
  for (const OptimizerLine &line : settings.optimizers) {
    matchSome(line.patterns);
    auto takes = [&](const std::string &path) {
      return line.patterns.empty() ||
             llvm::any_of(line.patterns, [&](const Pattern &pattern) { return matches(pattern, path); });
    };
    // Of a line after one for all parameters checkSchedules tells it.
    if (!hasAll && llvm::none_of(left, takes) && llvm::any_of(parameters, takes))
      diagnostics.error(Code::E0410, line.range,
                        "this line takes no parameter: the first match wins, and the lines above take all that it "
                        "matches");
    hasAll |= line.patterns.empty();
    llvm::erase_if(left, takes);
  }
  if (!left.empty() && !settings.optimizers.empty()) {
    diagnostics.error(Code::E0411, settings.optimizers.back().range,
                      "no optimize line takes " + shownSome(left) +
                          "; add a pattern, or a line without 'on' as the last");
  }
  return diagnostics.errorCount() == before;
}

} // namespace echelon
