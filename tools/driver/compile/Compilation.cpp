// The stages in order. Messages of passes arrive as diagnostics at the source line of the operation concerned.
#include "tools/driver/compile/Compilation.h"

#include "codegen/Emit.h"
#include "frontend/elaborate/Walk.h"
#include "ir/dist/Dist.h"
#include "ir/ech/Build.h"
#include "ir/ech/Decimal.h"
#include "ir/ech/Ech.h"
#include "ir/rt/Rt.h"
#include "ir/run/Run.h"
#include "mlir/IR/Diagnostics.h"
#include "mlir/Pass/PassManager.h"
#include "runtime/data/DataSource.h"
#include "runtime/data/File.h"
#include "tools/driver/build/Paths.h"
#include "tools/driver/compile/LayoutText.h"
#include "tools/driver/compile/StageDump.h"
#include "tools/driver/edit/Settings.h"
#include "llvm/Support/raw_ostream.h"

#include <cstdio>
#include <filesystem>
#include <iostream>
#include <unistd.h>

using namespace echelon::frontend;

namespace echelon {

Compilation::Compilation(CompileOptions given) : options(std::move(given)), diagnostics(sources) {}
Compilation::~Compilation() = default;

bool Compilation::printDiagnostics() const {
  if (options.warns || diagnostics.hasErrors())
    diagnostics.print(std::cerr, wantsColours(STDERR_FILENO));
  return diagnostics.hasErrors();
}

std::string Compilation::folder() const {
  std::string parent = std::filesystem::path(options.spec).parent_path().string();
  return parent.empty() ? "." : parent;
}

//===- text to plan -----------------------------------------------------------------------------------------------===//

bool Compilation::chooseTrain() {
  const auto &trains = program->main().trains;
  if (!options.train.empty()) {
    train = program->findTrain(options.train);
    if (!train) {
      std::vector<std::string> names;
      for (const Train &t : trains)
        names.push_back(t.name.text);
      const std::string meant = didYouMean(options.train, names);
      diagnostics.error(Code::E0121, {},
                        quoted(options.spec) + " has no train block " + quoted(options.train) +
                            (!meant.empty()  ? meant
                             : names.empty() ? "; it has none"
                                             : "; it has " + listed(names)));
      return false;
    }
  } else if (!trains.empty()) {
    train = &trains.front();
  }
  return true;
}

bool Compilation::parse() {
  program = parseProgram(sources, options.spec, diagnostics);
  if (!program || diagnostics.hasErrors() || !chooseTrain())
    return false;
  if (!options.layout.empty() && train) {
    program =
        parseProgram(sources, sources.add(options.spec, withLayout(sources, *train, options.layout)), diagnostics);
    if (!program || diagnostics.hasErrors() || !chooseTrain())
      return false;
  }
  if (options.settings.empty())
    return true;
  std::string why = train ? "" : "there is no train block to set anything in";
  std::string text = train ? applySettings(sources, *train, options.settings, why) : "";
  if (!why.empty()) {
    diagnostics.error(Code::E0117, {}, why);
    return false;
  }
  std::unique_ptr<Program> written = std::move(program);
  const Train *before = train;
  program = parseProgram(sources, sources.add(options.spec, text), diagnostics);
  if (!program || diagnostics.hasErrors() || !chooseTrain())
    return false;
  if (!onlySet(*before, *train, options.settings)) {
    diagnostics.error(Code::E0117, {}, "the settings say more than values: they change which clauses there are");
    return false;
  }
  return true;
}

bool Compilation::resolve() {
  if (!train) {
    diagnostics.error(Code::E0121, {},
                      quoted(options.spec) +
                          " has no train block, so there is nothing to run; add one: train NAME { model NAME() … }");
    return false;
  }
  return resolveBlock();
}

bool Compilation::resolveBlock() {
  size_t before = diagnostics.errorCount();
  settings = resolveTrain(*program, *train, diagnostics, options.oneRank);
  bool isResolved = diagnostics.errorCount() == before;
  if (options.microBatches)
    settings.microBatches = options.microBatches;
  if (options.wholeBatch)
    settings.microBatches = 1;
  if (options.doublePrecision)
    settings.doublePrecision = true;
  if (options.batch)
    settings.batch = options.batch;
  if (options.drawsArrivals && settings.sync && settings.sync->delay.empty() && !settings.sync->isLocal())
    settings.sync->drawArrivals();
  if (isResolved || options.allowNotBuilt)
    reportNotBuilt();
  return diagnostics.errorCount() == before;
}

void Compilation::reportNotBuilt(size_t from) {
  for (size_t i = from; i < settings.notBuilt.size(); ++i)
    diagnostics.report(Code::E0601, options.allowNotBuilt ? Severity::Note : Severity::Error,
                       settings.notBuilt[i].range, settings.notBuilt[i].message());
}

static const File *fileOf(const Program &program, const Model &model) {
  for (const auto &file : program.files)
    for (const Model &m : file->models)
      if (&m == &model)
        return file.get();
  return nullptr;
}

// Every name that the model, or any block, declares as an axis.
static void addDeclared(const Program &program, const Body &model, std::map<std::string, int64_t> &sizes,
                        std::set<std::string> &repeats) {
  auto add = [&](const Body &body) {
    forEachStatement(body, [&](const Statement &s) {
      if (const auto *axis = dynCast<AxisStatement>(&s))
        sizes.emplace(axis->name.text, 0);
      else if (const auto *repeat = dynCast<RepeatStatement>(&s))
        repeats.insert(repeat->axis.text);
    });
  };
  add(model);
  for (const auto &file : program.files)
    for (const Block &block : file->blocks)
      add(block.body);
}

//===- plan to IR -------------------------------------------------------------------------------------------------===//

void Compilation::openContext() {
  module = nullptr; // it lives in the context
  context = std::make_unique<mlir::MLIRContext>(mlir::MLIRContext::Threading::DISABLED);
  context->printOpOnDiagnostic(false);
  context->loadDialect<ech::EchDialect, dist::DistDialect, run::RunDialect, rt::RtDialect>();
  context->getDiagEngine().registerHandler([this](mlir::Diagnostic &said) {
    const bool isError = said.getSeverity() == mlir::DiagnosticSeverity::Error;
    if (!isError && said.getSeverity() != mlir::DiagnosticSeverity::Warning)
      return mlir::success();
    std::string text = said.str();
    Code code = Code::E0312;
    // A pass that has a code of its own begins its message with it: "E0312: …".
    unsigned number = 0;
    if (text.size() > 7 && text[0] == 'E' && text[5] == ':' &&
        !llvm::StringRef(text).substr(1, 4).getAsInteger(10, number)) {
      code = static_cast<Code>(number);
      text = text.substr(7);
    }
    Diagnostic &d =
        diagnostics.report(code, isError ? Severity::Error : Severity::Warning, rangeOf(said.getLocation()), text);
    for (mlir::Diagnostic &note : said.getNotes())
      d.note(rangeOf(note.getLocation()), note.str());
    return mlir::success();
  });
}

std::vector<std::string> Compilation::perMicroBatch() const {
  std::vector<std::string> found;
  auto batch = mlir::StringAttr::get(context.get(), facts.batchAxis);
  (*module)->walk([&](ech::NormalizeOp op) {
    if (!op->hasAttr(ech::kLocal) || !llvm::is_contained(op.getOver(), batch))
      return;
    const SourceRange at = rangeOf(op.getLoc());
    std::string text = "normalize marked local";
    if (at.valid())
      text += " (" + sources.name(at.file) + ":" + std::to_string(at.line) + ")";
    text += ": its statistics are those of one micro batch";
    if (!llvm::is_contained(found, text))
      found.push_back(std::move(text));
  });
  return found;
}

void Compilation::sayPrecision(std::vector<std::string> &found) const {
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
  if (!keep.empty() && !compute.empty()) {
    std::string patterns;
    for (const Pattern &pattern : keep)
      patterns += (patterns.empty() ? "" : ", ") + pattern.text;
    found.push_back("keep (" + patterns +
                    ") fp32: products that read these parameters, and their derivatives, take "
                    "and give fp32");
  }
}

std::vector<std::string> Compilation::otherMathematics() const {
  std::vector<std::string> found;
  if (settings.microBatches > 1)
    found = perMicroBatch();
  if (settings.doublePrecision)
    return found;
  sayPrecision(found);
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

std::optional<CompileOptions::Workers> Compilation::workers() const {
  auto counts = (*module)->getAttrOfType<mlir::DenseI64ArrayAttr>(ech::kPackedBy);
  if (!counts)
    return std::nullopt;
  CompileOptions::Workers found{counts[0], counts[1], settings.microBatches, {}};
  for (llvm::StringRef path : ech::strings((*module)->getAttrOfType<mlir::ArrayAttr>(ech::kExactGradients)))
    found.exact.push_back(path.str());
  return found;
}

static std::string sentenceOf(const CompressSettings &c, const std::optional<SyncSettings> &sync) {
  std::string over;
  for (const std::string &axis : c.over)
    over += (over.empty() ? "" : ", ") + axis;
  const std::string residual = c.feedback ? ", and what packing lost is added to what it packs next" : "";
  if (c.ofDeltas)
    return "compress deltas over " + over + " with " + c.method() +
           ": what workers meet with is the mean of what came of each one's way from where they last met" + residual;
  if (sync && !sync->isLocal())
    return "compress gradients over " + over + " with " + c.method() +
           ": the mean is of what came of what each worker hands in to an update" + residual;
  return "compress gradients over " + over + " with " + c.method() +
         ": the sum over these ranks is of what came of each one's own part" +
         (c.feedback ? ", and what packing lost is added to that of the next step" : "");
}

static std::string sentenceOfLocal(const SyncSettings &s) {
  std::string text = "sync " + s.text() + ": " + std::to_string(s.workers) +
                     " workers train by themselves, each on its own " + "samples; after every " +
                     std::to_string(s.every) + (s.every == 1 ? " step" : " steps") +
                     " and the last one all go on with the mean of their parameters";
  if (!s.outer.empty())
    text += ", or what " + s.outer + " makes of the step from the last such place to it";
  return text + "; what their optimizers keep stays their own";
}

static std::string sentenceOf(const SyncSettings &s) {
  static const std::map<std::string, const char *> does = {
      {"k_sync", "who finishes first is in, the others stop, and their samples are lost"},
      {"k_batch_sync", "who finishes takes more samples at the same parameters; at the last one the others stop, and "
                       "their samples are lost"},
      {"k_async", "who finishes waits for the update, and goes on at the newest parameters; the others go on with what "
                  "they have read"},
      {"k_batch_async", "who finishes goes on at the newest parameters at once"}};
  const double k = double(s.k), workers = double(s.workers);
  std::string text = "sync " + s.text() + ": an update is the mean of the gradients of " + std::to_string(s.k) +
                     (s.k == 1 ? " mini-batch; " : " mini-batches; ") + std::to_string(s.workers) + " workers; " +
                     does.at(s.policy);
  if (s.isAsync()) {
    char number[40];
    std::snprintf(number, sizeof(number), "%.3g", s.isBatch() ? (workers - 1) / k : workers / k - 1);
    text += std::string("; the mean staleness is ") + number +
            (s.staleness ? ", and none is above " + std::to_string(*s.staleness) : "") +
            (s.damps ? "; gradients count 1 / max(1, their staleness)" : "") +
            "; before evaluations, snapshots and the end all workers meet, and drop the work in hand";
  }
  return text + (s.delay.empty() ? "" : "; arrivals are drawn");
}

std::vector<std::string> Compilation::mathematicsOfClauses() const {
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

// What passes say about an operation is at the source line that the operation comes from.
SourceRange Compilation::rangeOf(mlir::Location location) const {
  SourceRange range;
  location->walk([&](mlir::Location inner) {
    auto at = llvm::dyn_cast<mlir::FileLineColLoc>(inner);
    if (!at || range.valid())
      return mlir::WalkResult::advance();
    // The newest file of the name: with --set, the text that has been set.
    for (FileId f = static_cast<FileId>(sources.size()); f-- > 0 && !range.valid();)
      if (sources.name(f) == at.getFilename().getValue()) {
        std::string_view text = sources.text(f), line = sources.line(f, at.getLine());
        if (line.data() < text.data() || line.data() > text.data() + text.size())
          continue;
        size_t offset = static_cast<size_t>(line.data() - text.data()), end = offset + line.size();
        for (unsigned column = 1; column < at.getColumn() && offset < end; ++column)
          offset += runtime::characterAt(text, offset).bytes;
        range = {f, static_cast<uint32_t>(offset), 1, at.getLine(), at.getColumn()};
      }
    return mlir::WalkResult::advance();
  });
  return range;
}

bool Compilation::elaborate() {
  size_t before = diagnostics.errorCount();
  bool good = elaborateModel();
  checkLayoutAxes();
  if (!good || diagnostics.errorCount() > before || !checkData() || !checkPatterns() || !checkUntil())
    return false;
  annotate();
  return true;
}

bool Compilation::elaborateModel() {
  openContext();
  facts = ModelFacts();
  ElaborateOptions request;
  request.model = settings.model;
  request.file = fileOf(*program, *settings.model);
  if (!request.file)
    return false;
  request.caller = &program->main();
  request.arguments = settings.modelArguments;
  request.set = options.modelArguments;
  std::vector<Path> inputs;
  for (const auto &[name, range] : settings.inputs)
    inputs.push_back(Path{{Ident{name, range}}, range});
  if (settings.dataRange.valid()) // else the clause is missing, which has been told
    request.inputs = &inputs;
  request.modelRange = settings.modelRange;
  request.dataRange = settings.dataRange;
  if (settings.sync && options.policyWorkers)
    settings.sync->workers = options.policyWorkers;
  request.batch = std::max<int64_t>(settings.miniBatch(), 1);
  request.f64 = settings.doublePrecision;
  module = frontend::elaborate(*context, sources, *program, request, diagnostics, facts);
  return static_cast<bool>(module);
}

llvm::StringSet<> axesOfTensors(mlir::ModuleOp module) {
  llvm::StringSet<> names;
  auto add = [&](mlir::Type type) {
    if (auto tensor = llvm::dyn_cast<ech::Tensor>(type))
      for (llvm::StringRef name : tensor.names())
        names.insert(name);
  };
  module.walk([&](mlir::Operation *op) {
    llvm::for_each(op->getResultTypes(), add);
    if (auto variable = llvm::dyn_cast<ech::VariableOp>(op))
      add(variable.getType());
    if (auto input = llvm::dyn_cast<ech::InputOp>(op))
      add(input.getType());
  });
  return names;
}

void Compilation::checkLayoutAxes() {
  std::map<std::string, int64_t> sizes;
  std::set<std::string> repeats;
  for (const AxisFacts &axis : facts.axes) {
    sizes[axis.name] = axis.size;
    if (axis.isRepeat)
      repeats.insert(axis.name);
  }
  // Where the model has errors, an axis that it declares may be missing among the facts.
  if (!module && settings.model)
    addDeclared(*program, settings.model->body, sizes, repeats);
  size_t known = settings.notBuilt.size();
  checkAxes(settings, sizes, repeats, diagnostics);
  reportNotBuilt(known);
  if (!module)
    return;
  const llvm::StringSet<> held = axesOfTensors(*module);
  for (const MeshAxisSettings &mesh : settings.mesh)
    for (const MeshAxisSettings::Entry &entry : mesh.list)
      if (sizes.count(entry.axis) && !repeats.count(entry.axis) && !held.contains(entry.axis))
        diagnostics.error(Code::E0306, entry.range,
                          "no tensor of the model has the axis " + quoted(entry.axis) + ", so " + mesh.name +
                              " has nothing to split; split an axis of a tensor");
}

void Compilation::warnOfUnseenMetrics() {
  if (options.trainingOnly) // what the spec evaluates is left out
    return;
  std::vector<std::string> names;
  for (const ModelFacts::Metric &metric : facts.metrics)
    if (!metric.inEvaluation)
      diagnostics.warning(Code::E0128, metric.name.range,
                          "metric " + metric.name.text +
                              " is where `training` is true alone, and metrics are computed in evaluations, where "
                              "it is false");
    else
      names.push_back(metric.name.text);
  if (names.empty() || !settings.evaluations.empty())
    return;
  const bool one = names.size() == 1;
  auto first = llvm::find_if(facts.metrics, [](const ModelFacts::Metric &metric) { return metric.inEvaluation; });
  diagnostics
      .warning(Code::E0128, settings.train->name.range,
               std::string(one ? "metric " : "metrics ") + listed(names) + (one ? " is" : " are") +
                   " computed in evaluations alone, and train " + settings.name +
                   " makes none; add a clause, as in evaluate every 100 steps")
      .note(first->name.range, "metric " + first->name.text + " is declared here");
}

bool Compilation::lower(Stage until) {
  size_t before = diagnostics.errorCount();
  mlir::PassManager manager(context.get());
  bool isDumpIncomplete = false;
  if (!options.dumpStages.empty())
    manager.addInstrumentation(dumpStages(*module, options.dumpStages, stemOf(options.spec), isDumpIncomplete));
  buildPipeline(manager, until, options.pipeline);
  if (mlir::failed(manager.run(*module))) {
    if (diagnostics.errorCount() == before)
      diagnostics.error(Code::E0799, {program->main().id, 0, 0, 1, 1},
                        "internal error: a pass failed without saying why; please report it with this spec");
    return false;
  }
  if (isDumpIncomplete || diagnostics.errorCount() > before || (until == Stage::Rt && !checkMemory()))
    return false;
  warnOfUnseenMetrics();
  return true;
}

bool Compilation::emit(std::string &text) {
  llvm::raw_string_ostream stream(text);
  return mlir::succeeded(emitCpp(*module, sources, stream, options.profile)) && !diagnostics.hasErrors();
}

/// The files and folders of a source; of a folder, what is in it, too.
static std::vector<std::string> dataFiles(const runtime::DataSpec &spec, const std::string &folder) {
  std::vector<std::string> files;
  for (const std::string &path : spec.paths) {
    files.push_back(runtime::resolvePath(path, folder));
    std::vector<std::string> names;
    if (runtime::listFolder(files.back(), names).empty())
      for (const std::string &name : names)
        files.push_back(runtime::resolvePath(name, runtime::resolvePath(path, folder)));
  }
  for (const runtime::DataSpec &child : spec.children)
    for (const std::string &file : dataFiles(child, folder))
      files.push_back(file);
  return files;
}

bool Compilation::wouldOverwrite(const std::string &file) const {
  std::vector<std::string> inputs = dataFiles(settings.data, folder());
  for (const frontend::EvaluationSettings &evaluation : settings.evaluations)
    if (evaluation.source)
      for (const std::string &path : dataFiles(*evaluation.source, folder()))
        inputs.push_back(path);
  for (size_t f = 0; f < sources.size(); ++f)
    inputs.push_back(sources.path(static_cast<FileId>(f)));
  std::error_code none;
  for (const std::string &input : inputs)
    if (std::filesystem::equivalent(file, input, none) && std::filesystem::is_regular_file(file, none)) {
      std::cerr << "echelon: " << quoted(file) << " is read by this spec; write to another file\n";
      return true;
    }
  return false;
}

} // namespace echelon
