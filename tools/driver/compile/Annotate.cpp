// What the train block says, in the module: passes and the printer see nothing else of it.
#include "tools/driver/compile/BuildRun.h"
#include "tools/driver/compile/Compilation.h"
#include "tools/driver/compile/WeightDecay.h"

#include "frontend/resolve/MachineOf.h"
#include "frontend/resolve/Machines.h"
#include "passes/cost/HeldMemory.h"

#include "ir/dist/Dist.h"
#include "ir/dist/Offload.h"
#include "ir/dist/State.h"
#include "ir/ech/Recompute.h"
#include "ir/rt/Offload.h"
#include "mlir/Pass/PassManager.h"
#include "passes/cost/Links.h"
#include "tools/driver/compile/Mathematics.h"
#include <functional>
#include <map>

using namespace echelon::frontend;

namespace echelon {

/// Of the model as the passes would have it before they derive it, so that what they make equal is equal.
std::string Compilation::mathematicsOfModel() {
  mlir::OwningOpRef<mlir::ModuleOp> copy = module->clone();
  keepZeroWeights(*copy);
  copy->walk([](mlir::Operation *op) { op->removeDiscardableAttr(ech::kKeptAs); }); // what is kept is no mathematics
  mlir::PassManager manager(context.get());
  manager.addPass(createRecogniseAttention());
  manager.addPass(createSimplify());
  return mlir::succeeded(manager.run(*copy)) ? mathematicsOf(*copy, sources) : "";
}

void Compilation::annotate() {
  if (options.trainingOnly) {
    settings.evaluations.clear();
    settings.until.reset();
  }
  if (settings.evaluations.empty()) { // what evaluation cannot do is no fault of a run that has none
    if (mlir::Operation *step = mlir::SymbolTable::lookupSymbolIn(*module, "evaluate"))
      step->erase();
  }
  mlir::Builder b(context.get());
  const std::string mathematics =
      settings.checkpoint.directory.empty() ? "" : mathematicsOfModel(); // without snapshots nothing keeps it
  buildRun(*module, settings, sources, mathematics);
  (*module)->setAttr(ech::kMicroBatches, b.getI64IntegerAttr(settings.microBatches));
  if (!settings.recompute.policy.empty() && settings.recompute.policy != "auto") // which chooseRecompute() replaces
    annotateRecompute(b);
  if (options.keepGradients)
    (*module)->setAttr(ech::kKeepGradients, b.getUnitAttr());
  if (settings.clip)
    (*module)->setAttr(ech::kClip, b.getF64FloatAttr(*settings.clip));
  if (options.workers) {
    (*module)->setAttr(ech::kWorkers, b.getDenseI64ArrayAttr({options.workers->all, options.workers->ofHop}));
    llvm::SmallVector<llvm::StringRef> exact(options.workers->exact.begin(), options.workers->exact.end());
    (*module)->setAttr(ech::kExactGradients, b.getStrArrayAttr(exact));
  }
  decayWhatIsNamed(*module, settings);
  warnOfIdleDecay(decayOf(*module, settings, sources), diagnostics);
  annotateLayout(b);
}

mlir::LocationAttr Compilation::locationOf(const SourceRange &at) const {
  if (!at.valid())
    return mlir::UnknownLoc::get(context.get());
  return mlir::FileLineColLoc::get(context.get(), sources.name(at.file), at.line, at.column);
}

void Compilation::annotateRecompute(mlir::Builder &b) {
  const RecomputeSettings &said = settings.recompute;
  ech::Recompute made{said.policy, said.every, said.axis, nullptr, locationOf(said.range)};
  if (said.policy == "keep") {
    auto text = [&](const Path &name) -> mlir::Attribute { return b.getStringAttr(name.text()); };
    made.names = b.getArrayAttr(llvm::map_to_vector(said.keep, text));
  }
  (*module)->setAttr(ech::kRecompute, made.toAttribute(b));
}

namespace {
/// What the layout clause says, as attributes of the module.
class LayoutAttributes {
public:
  LayoutAttributes(const RunSettings &settings, bool hasDevice, mlir::Builder &b,
                   std::function<mlir::LocationAttr(const SourceRange &)> location)
      : settings(settings), hasDevice(hasDevice), b(b), location(std::move(location)) {}

  void add(const MeshAxisSettings &axis);
  void add(const CollectiveSettings &collective);
  void setOn(mlir::ModuleOp module);

private:
  mlir::NamedAttribute named(const std::string &name, mlir::Attribute value) { return b.getNamedAttr(name, value); }

  const RunSettings &settings;
  bool hasDevice;
  mlir::Builder &b;
  std::function<mlir::LocationAttr(const SourceRange &)> location;
  llvm::SmallVector<dist::MeshAxis> axes;
  llvm::SmallVector<mlir::Attribute> algorithms;
  std::map<std::string, llvm::SmallVector<llvm::StringRef>> stores; // mesh axes by what is stored
  llvm::SmallVector<mlir::NamedAttribute> places, schedules, balance;
  llvm::SmallVector<llvm::StringRef> rings;
};

void LayoutAttributes::add(const MeshAxisSettings &axis) {
  llvm::SmallVector<llvm::StringRef> list;
  llvm::SmallVector<bool> padded;
  llvm::SmallVector<dist::OwnerMap> maps;
  for (const MeshAxisSettings::Entry &entry : axis.list) {
    if (settings.isWorkerAxis(axis.name)) // each worker has a mini-batch of its own
      break;
    list.push_back(entry.axis);
    padded.push_back(entry.padded);
    maps.push_back(entry.zigzag ? dist::OwnerMap::zigzag() : dist::OwnerMap::unequal(axis.chunks, entry.counts));
    places.push_back(named(axis.name + "." + entry.axis, location(entry.range)));
  }
  axes.push_back({b.getStringAttr(axis.name), axis.size, b.getStrArrayAttr(list), b.getDenseBoolArrayAttr(padded),
                  dist::listMaps(b.getContext(), maps)});
  if (axis.balanced)
    balance.push_back(named(axis.name, location(axis.parts)));
  if (!axis.schedule.empty())
    schedules.push_back(named(axis.name, b.getStringAttr(axis.schedule)));
  if (axis.ring.valid()) {
    rings.push_back(axis.name);
    places.push_back(named(axis.name + ".ring", location(axis.ring)));
  }
  if (settings.isWorkerAxis(axis.name))
    places.push_back(named(axis.name + ".sync", location(settings.sync->range)));
  for (const auto &[what, range] : axis.stored)
    stores[what].push_back(axis.name);
  if (!axis.stored.empty())
    places.push_back(named(axis.name + ".store", location(axis.stored.begin()->second)));
}

void LayoutAttributes::add(const CollectiveSettings &collective) {
  llvm::SmallVector<llvm::StringRef> over(collective.over.begin(), collective.over.end());
  algorithms.push_back(b.getDictionaryAttr(
      {named("op", b.getStringAttr(collective.kind)), named("over", b.getStrArrayAttr(over)),
       named("algorithm", b.getStringAttr(collective.algorithm)), named("place", location(collective.range))}));
}

void LayoutAttributes::setOn(mlir::ModuleOp module) {
  if (axes.empty()) // one rank: a mesh of one, which nothing is split over
    axes.push_back({b.getStringAttr("rank"), 1, b.getStrArrayAttr({}), b.getDenseBoolArrayAttr({}), {}});
  module->setAttr(dist::kMesh, dist::MeshAttr::get(b.getContext(), axes));
  llvm::SmallVector<mlir::NamedAttribute> stored;
  for (const auto &[what, over] : stores)
    stored.push_back(named(what, b.getStrArrayAttr(over)));
  module->setAttr(dist::kStore, b.getDictionaryAttr(stored));
  if (!schedules.empty())
    module->setAttr(dist::kSchedules, b.getDictionaryAttr(schedules));
  if (!balance.empty())
    module->setAttr(dist::kBalance, b.getDictionaryAttr(balance));
  if (!rings.empty())
    module->setAttr(dist::kRing, b.getStrArrayAttr(rings));
  if (settings.offload && (!settings.offload->directory.empty() || hasDevice)) {
    module->setAttr(dist::kOffload, b.getStringAttr(settings.offload->directory));
    if (settings.offload->params)
      module->setAttr(dist::kOffloadParams, b.getUnitAttr());
    if (hasDevice)
      module->setAttr(rt::kStaged, b.getUnitAttr());
    places.push_back(named(dist::kOffload.str(), location(settings.offload->range)));
  }
  module->setAttr(dist::kLines, b.getDictionaryAttr(places));
  module->setAttr(dist::kAlgorithms, b.getArrayAttr(algorithms));
}
} // namespace

/// What its machine says that a framework holds of memory.
static void annotateHeld(mlir::Builder &b, const frontend::Device &device, mlir::ModuleOp module) {
  llvm::SmallVector<mlir::NamedAttribute> constants;
  for (const Setting &setting : device.response)
    if (llvm::StringRef(setting.name.text).starts_with("held_"))
      constants.push_back(b.getNamedAttr(setting.name.text, b.getF64FloatAttr(setting.value.value)));
  if (!constants.empty())
    module->setAttr(kHeld, b.getDictionaryAttr(constants));
}

/// The mesh, and where in the spec each of its lines stands.
void Compilation::annotateLayout(mlir::Builder &b) {
  LayoutAttributes attributes(settings, options.machine != Machine::Cpu, b,
                              [this](const SourceRange &at) { return locationOf(at); });
  for (const MeshAxisSettings &axis : settings.mesh)
    attributes.add(axis);
  for (const CollectiveSettings &collective : settings.collectives)
    attributes.add(collective);
  if (const int64_t ranks = options.nodeRanks ? options.nodeRanks : settings.nodeRanks)
    (*module)->setAttr(dist::kNodeRanks, b.getI64IntegerAttr(ranks));
  if (settings.device)
    annotateHeld(b, wholeDevice(*program, *settings.device), *module);
  attributes.setOn(*module);
  annotateLinks();
}

/// What passes choose by, where somebody has measured or described it. Without ranks that talk there is nothing to
/// choose.
void Compilation::annotateLinks() {
  const bool isDescribed = settings.cluster && settings.cluster->nodes;
  if (settings.ranks() < 2 || (!isDescribed && !here))
    return;
  if (!isDescribed && options.nodeRanks > 0 && options.nodeRanks < settings.ranks())
    return; // what lies between machines nobody has measured
  planner::Machine machine = machineOf(*program, settings, here.get());
  if (options.nodeRanks > 0)
    machine.perNode = options.nodeRanks;
  setLinks(*module, machine);
}

} // namespace echelon
