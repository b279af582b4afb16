#include "tools/driver/search/Trial.h"

#include "ir/ech/Build.h"
#include "ir/ech/Recompute.h"
#include "mlir/Pass/PassManager.h"
#include "tools/driver/compile/RecomputeChoice.h"

using namespace echelon::frontend;

namespace echelon {

Trial::Trial(const CompileOptions &options) : compilation(options) {
  isGood = compilation.parse() && compilation.resolve();
  RunSettings &settings = compilation.settings;
  settings.checkpoint.directory.clear(); // snapshots are written beside the step
  room = settings.deviceBytes;
  if (settings.recompute.policy == "auto") {
    if (const auto within = static_cast<int64_t>(settings.recompute.within); within > 0)
      room = room ? std::min(room, within) : within;
    settings.recompute.policy.clear();
  }
  resolved = settings;
}

bool Trial::elaborate() {
  compilation.settings = resolved;
  return compilation.elaborate();
}

/// As Compilation::lower, of a program that nobody runs: it is not verified after each pass.
bool Trial::lower() {
  const size_t before = compilation.diagnostics.errorCount();
  mlir::PassManager manager(compilation.context.get());
  manager.enableVerifier(false);
  PipelineOptions pipeline = compilation.options.pipeline;
  pipeline.target = compilation.options.machine == Machine::Cpu ? Target::Cpu : Target::Gpu;
  buildPipeline(manager, Stage::Shaped, pipeline);
  return mlir::succeeded(manager.run(*compilation.module)) && compilation.diagnostics.errorCount() == before;
}

planner::Price Trial::ask(const PlannedLayout &layout, bool evaluates) {
  compilation.settings = resolved;
  RunSettings &settings = compilation.settings;
  if (!evaluates) {
    settings.evaluations.clear();
    settings.until.reset();
  }
  settings.mesh = layout.mesh;
  auto isIn = [&](const std::string &name) {
    return llvm::any_of(layout.mesh, [&](const MeshAxisSettings &axis) { return axis.name == name; });
  };
  llvm::erase_if(settings.collectives, [&](const CollectiveSettings &pinned) {
    return !llvm::all_of(pinned.over, isIn); // a part of the mesh alone is asked for, too
  });
  settings.microBatches = layout.microBatches;
  settings.batch = layout.batch;
  if (layout.recompute)
    settings.recompute = *layout.recompute;
  planner::Price price;
  if (!compilation.elaborate())
    return price;
  if (settings.recompute.policy == "keep") { // whether each name is of use is found out
    mlir::Builder builder(compilation.context.get());
    (*compilation.module)
        ->setAttr(ech::kRecompute, ech::Recompute{"keep", 0, "", nullptr, nullptr}.toAttribute(builder));
  }
  if (!lower())
    return price;
  kept.clear();
  if (auto names = (*compilation.module)->getAttrOfType<mlir::ArrayAttr>(ech::kKeptByRepeats))
    for (const Path &name : settings.recompute.keep)
      if (llvm::is_contained(ech::strings(names), llvm::StringRef(name.text())))
        kept.push_back(name.text());
  ProgramCost cost = programCost(*compilation.module);
  step = stepCost(compilation, 0, cost);
  memory = cost.memory;
  price.bytes = memory.total;
  price.seconds = step.time.seconds;
  price.kind = room && price.bytes > room ? planner::Price::Kind::NoRoom : planner::Price::Kind::Fits;
  return price;
}

std::vector<std::string> Trial::namesToKeep() {
  compilation.settings = resolved;
  compilation.settings.mesh.clear();
  compilation.settings.recompute.policy = "keep";
  compilation.settings.recompute.keep = {Path{{Ident{"*", {}}}, {}}};
  return compilation.elaborate() ? valuesToKeep(*compilation.module) : std::vector<std::string>();
}

} // namespace echelon
