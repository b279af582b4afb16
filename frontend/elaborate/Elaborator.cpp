// What a step begins and ends with, and the budgets of elaboration.
#include "frontend/elaborate/Elaborator.h"
#include "frontend/elaborate/Uses.h"
#include "frontend/elaborate/Walk.h"
#include "mlir/IR/Iterators.h"
#include "llvm/Support/SaveAndRestore.h"

using namespace mlir;
using namespace echelon::frontend;
namespace ech = echelon::ech;

namespace {
// So that 10 s are enough for any model: warnings and messages look at pairs of parameters (4096: 5 s to C++, busy).
constexpr size_t maxOperations = 20'000, maxCalls = 20'000, maxVariables = 4096;
constexpr size_t maxErrors = 1'000;  // ten times what is reported; each may look for the nearest of all names
constexpr unsigned maxDepth = 1'500; // of nested calls and expressions together: keeps the stack below a few MiB
} // namespace

Elaborator::Elaborator(Shared &shared, bool training)
    : read(*this),
      build(builder, UnknownLoc::get(&shared.context),
            shared.options.f64 ? Type(Float64Type::get(&shared.context)) : Type(Float32Type::get(&shared.context))),
      scopes(shared.context, shared.sources, shared.diagnostics), loops(scopes, build), shared(shared),
      training(training), builder(&shared.context) {
  builder.setListener(&counter);
}

bool Elaborator::exhausted(SourceRange range) {
  // Training and evaluation are lowered apart.
  if (budgetReported || shared.diagnostics.told(Code::E0706) || shared.diagnostics.errorCount() > maxErrors)
    return budgetReported = true;
  std::string what;
  if (counter.order.size() > maxOperations)
    what = "more than " + std::to_string(maxOperations) + " operations";
  else if (shared.variables.size() > maxVariables)
    what = "more than " + std::to_string(maxVariables) + " parameters and states";
  else if (callCount > maxCalls)
    what = "more than " + std::to_string(maxCalls) + " calls of blocks";
  else if (depth > maxDepth)
    what = "calls of blocks that nest more than " + std::to_string(maxDepth) + " expressions deep";
  else
    return false;
  budgetReported = true;
  error(Code::E0706, range, "the model comes to " + what + "; a repeat makes a stack of layers of one body");
  return true;
}

/// `loss = …`, which only names a value.
static const AssignStatement *valueCalledLoss(const Body &body) {
  for (const StatementPtr &s : body)
    if (const auto *named = s ? dynCast<AssignStatement>(s) : nullptr; named && named->name.text == "loss")
      return named;
  return nullptr;
}

void Elaborator::run() {
  const ElaborateOptions &options = shared.options;
  builder.setInsertionPointToEnd(shared.module.getBody());
  {
    llvm::SaveAndRestore at(build.loc, scopes.location(options.model->range));
    step = ech::StepOp::create(builder, build.loc, training ? "train" : "evaluate");
  }
  builder.setInsertionPointToEnd(&step.getBody().front());

  Scope model;
  model.file = options.file;
  model.body = &options.model->body;
  Scopes::Entered entered(scopes, model);
  if (training) // which comes first
    nameAllAxes();
  bindModelArguments();
  model.callNames = nameCalls(options.model->body, [&](const Path &p) { return isBlock(*model.file, p); });
  execute(options.model->body);

  if (!budgetReported) {
    const Ident &name = options.model->name;
    const AxisInfo *batch = scopes.findAxis("batch");
    if (openAxes.empty() && batch)
      error(Code::E0126, batch->range,
            "axis batch has a size, and the run is to size it: write `axis batch`, and the number in the train block, "
            "as in batch " +
                std::to_string(batch->size));
    else if (openAxes.empty())
      error(Code::E0126, name.range,
            "model " + name.text + " has no open axis; `axis batch` is the one that the run sizes");
    const AssignStatement *named = hasLoss ? nullptr : valueCalledLoss(options.model->body);
    if (named)
      error(Code::E0125, named->name.range,
            "model " + name.text +
                " has no loss: this is a value of that name; a loss is written without '=', as in loss mean(…)");
    else if (!hasLoss)
      error(Code::E0125, name.range,
            "model " + name.text + " has no loss; `loss mean(…)` is what training makes small");
    finish();
  }
}

static bool isLoss(Operation *op) {
  auto report = dyn_cast<ech::ReportOp>(op);
  return report && (report.getKind() == ech::ReportKind::Loss || report.getKind() == ech::ReportKind::NamedLoss);
}

/// In training those that no loss depends on, in evaluation those that training does not have.
void Elaborator::warnOfIdleParameters() {
  std::vector<std::pair<SourceRange, std::vector<std::string>>> idle; // those of one call together
  for (const Stored &variable : storedStore) {
    const bool learns = training ? reaches(topReads[variable.path], isLoss) : !variable.isNew;
    if (shared.variables[variable.path].getKind() != ech::VariableKind::Param || learns)
      continue;
    SourceRange place = variable.usersPlace;
    if (idle.empty() || idle.back().first.file != place.file || idle.back().first.offset != place.offset)
      idle.push_back({place, {}});
    idle.back().second.push_back(variable.path);
  }
  for (const auto &[place, paths] : idle)
    shared.diagnostics.warning(Code::E0127, place,
                               "no loss depends on param " + listed(paths) + ", so nothing is learned in " +
                                   (paths.size() == 1 ? "it" : "them"));
}

/// What nothing reads: in training, what was worked out for a metric.
static void eraseUnread(ech::StepOp step) {
  step->walk<WalkOrder::PostOrder, ReverseIterator>([](Operation *op) {
    if (isOpTriviallyDead(op))
      op->erase();
  });
}

void Elaborator::finish() {
  // Losses of one name add up, and a metric is the mean of those of its name, at the place of the first.
  std::vector<Loops::Pending> sums;
  for (const Loops::Pending &p : loops.reports()) {
    auto same = llvm::find_if(sums, [&](const Loops::Pending &q) { return q.kind == p.kind && q.name == p.name; });
    if (same == sums.end()) {
      sums.push_back(p);
      continue;
    }
    build.loc = p.loc;
    same->value = build.add(same->value, p.value);
    same->places += p.places;
  }
  for (Loops::Pending &p : sums) {
    build.loc = p.loc;
    if (p.kind == ech::ReportKind::Metric && p.places > 1)
      p.value = build.div(p.value, build.constant(p.places));
    ech::ReportOp::create(builder, p.loc, p.kind, p.name, p.value);
  }
  for (const Loops::PendingWrite &w : loops.writes())
    ech::WriteOp::create(builder, w.loc, w.target->path, w.value);
  noteChances(*this, step);
  refuseMixedSamples(*this, step);
  if (!shared.diagnostics.hasErrors())
    warnOfIdleParameters();
  if (training)
    eraseUnread(step);
}

void Elaborator::notePartial(StringRef function, SourceRange range) {
  auto place = dyn_cast<FileLineColLoc>(scopes.location(scopes.usersPlace(range)));
  if (!place || here().isLibrary)
    return;
  Location line = FileLineColLoc::get(place.getFilename(), place.getLine(), 1);
  shared.partialFunctions.insert(NameLoc::get(builder.getStringAttr(function), line));
}

std::string Elaborator::randomSite(const std::string &base) {
  // `mlp.dropout`, `mlp.dropout_2`: numbered within a call, so that a branch not taken elsewhere changes nothing here.
  int n = ++randomSites[here().prefix + base];
  return here().prefix + base + (n == 1 ? "" : "_" + std::to_string(n));
}

bool Elaborator::countsSamples(StringAttr axis) const {
  auto other = shared.likeBatch.find(axis.str());
  return (batchAxis && axis == batchAxis->name) || (other != shared.likeBatch.end() && other->second);
}

const AxisInfo *Elaborator::declared(StringAttr axis) const {
  auto it = llvm::find_if(axisStore, [&](const AxisInfo &info) { return info.name == axis; });
  return it == axisStore.end() ? nullptr : &*it;
}
