// The stages in order. Messages of passes arrive as diagnostics at the source line of the operation concerned.
#include "tools/driver/compile/Compilation.h"

#include "codegen/Emit.h"
#include "frontend/elaborate/Walk.h"
#include "frontend/resolve/MachineOf.h"
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
#include "tools/driver/compile/Prediction.h"
#include "tools/driver/compile/Sentences.h"
#include "tools/driver/compile/StageDump.h"
#include "tools/driver/edit/Settings.h"
#include "tools/driver/search/ChooseLayout.h"
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
  if (std::string why;
      hereFile.empty()) // what is left open is chosen by the same figures as `plan` has, which tells why
    findMachine(why);
  if (options.everyStep) {
    settings.sync.reset();
    if (settings.compress && settings.compress->ofDeltas) // of what only workers that train by themselves have
      settings.compress.reset();
  }
  if (isResolved && !takeLayout())
    return false;
  if (options.microBatches)
    settings.microBatches = options.microBatches;
  if (options.wholeBatch)
    settings.microBatches = 1;
  if (options.doublePrecision)
    settings.doublePrecision = true;
  if (options.fixedLossScale && settings.lossScale.isDynamic)
    settings.lossScale = {options.fixedLossScale, false};
  if (options.batch)
    settings.batch = options.batch;
  if (options.recompute) {
    const SourceRange clause = settings.recompute.range;
    settings.recompute = *options.recompute;
    settings.recompute.range = clause;
    for (Path &name : settings.recompute.keep)
      name.range = clause;
  }
  if (options.keepsAll) {
    settings.recompute = {};
    settings.offload.reset();
  }
  if (options.drawsArrivals && settings.sync && settings.sync->delay.empty() && !settings.sync->isLocal())
    settings.sync->drawArrivals();
  if (isResolved && options.ofCluster && frontend::machineOf(*program, settings).isOfGpus())
    options.machine = Machine::Cuda;
  if (isResolved && options.machine != Machine::Cpu)
    checkAlgorithms();
  if (isResolved || options.allowNotBuilt)
    reportNotBuilt();
  return diagnostics.errorCount() == before;
}

bool Compilation::takeLayout() {
  if (options.leavesLayoutOpen || options.allowNotBuilt || !echelon::leavesLayoutOpen(*train))
    return true;
  const char *clause = settings.sync ? "sync" : settings.compress ? "compress" : nullptr;
  if (clause) { // these name mesh axes, or mean what splits the batch
    diagnostics.error(Code::E0601, settings.layoutRange,
                      std::string("a layout that is left open under `") + clause +
                          "` is not built yet; write the mesh, as in layout mesh(dp = 2) { split batch over dp }");
    return false;
  }
  reportNotBuilt();
  if (diagnostics.hasErrors())
    return false;
  if (!options.chosen)
    options.chosen = chooseLayout(*this);
  if (!options.chosen)
    return false;
  options.chosen->applyTo(settings, options.oneRank);
  return true;
}

void Compilation::checkAlgorithms() {
  for (const frontend::CollectiveSettings &c : settings.collectives) {
    const bool isSent = c.kind == "all_to_all"; // by sends and receives
    const bool isKnown = c.algorithm == "native" || c.algorithm == dist::kHierarchical ||
                         (c.algorithm == "ring" && !isSent) || (c.algorithm == "tree" && c.kind == "all_reduce");
    if (!isKnown)
      settings.notBuilt.push_back({c.range, "collective " + c.kind + " with " + c.algorithm + " on a GPU",
                                   std::string(c.kind == "all_reduce" ? "ring, tree and native (NCCL's own choice) are"
                                               : isSent               ? "native (NCCL's sends and receives) is"
                                                                      : "ring and native (NCCL's own choice) are")});
  }
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

std::string Compilation::firstError() const {
  for (const Diagnostic &said : diagnostics.sorted())
    if (said.severity == Severity::Error)
      return said.message;
  return "";
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

std::vector<std::string> Compilation::otherMathematics() const {
  std::vector<std::string> found;
  if (settings.microBatches > 1)
    found = perMicroBatch();
  if (settings.doublePrecision)
    return found;
  llvm::append_range(found, sentencesOfPrecision(settings));
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
  chooseRecompute();
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
  static const std::vector<Path> kEvery = {Path{{Ident{"*", {}}}, {}}}; // chooseRecompute() takes from these
  if (settings.recompute.policy == "keep")
    request.kept = &settings.recompute.keep;
  else if (settings.recompute.policy == "auto")
    request.kept = &kEvery;
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

/// Parameters come from a file on CPUs, for workers that step together.
void Compilation::refuseCombinations() {
  if (settings.offload && settings.offload->params && (settings.sync || options.machine != Machine::Cpu))
    settings.notBuilt.push_back(
        {settings.offload->range,
         settings.sync ? "offload params under sync " + settings.sync->policy : "offload params on a GPU",
         "write offload optimizer to …"});
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
  refuseCombinations();
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
  PipelineOptions pipeline = options.pipeline;
  pipeline.target = target();
  buildPipeline(manager, until, pipeline);
  if (mlir::failed(manager.run(*module))) {
    if (diagnostics.errorCount() == before)
      diagnostics.error(Code::E0799, {program->main().id, 0, 0, 1, 1},
                        "internal error: a pass failed without saying why; please report it with this spec");
    return false;
  }
  if (isDumpIncomplete || diagnostics.errorCount() > before || (until >= Stage::Shaped && !checkMemory()))
    return false;
  if (until >= Stage::Shaped)
    placeSnapshots();
  warnOfUnseenMetrics();
  return true;
}

bool Compilation::emit(std::string &text) {
  if (options.profile)
    predictCalls(*this);
  llvm::raw_string_ostream stream(text);
  return mlir::succeeded(emitProgram(*module, target(), sources, stream, options.profile)) && !diagnostics.hasErrors();
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
