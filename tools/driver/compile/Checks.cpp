// `echelon check`: everything that can be told about a spec in one go. An error ends what follows from it, nothing
// else.
#include "tools/driver/compile/Compilation.h"

using namespace echelon::frontend;

namespace echelon {

void Compilation::check() {
  const bool whole = parse();
  if (!whole && !program)
    return;
  const File &main = program->main();
  if (!main.broken && main.trains.empty() && main.models.empty() && main.blocks.empty() && main.devices.empty() &&
      main.links.empty() && main.clusters.empty() && main.imports.empty())
    diagnostics.note(Code::E0121, {}, quoted(options.spec) + " declares nothing");
  std::set<const Model *> seen;
  for (const Train &block : program->main().trains)
    if (options.train.empty() || block.name.text == options.train) {
      checkTrain(block, whole);
      seen.insert(settings.model);
    }
  // Models that no train block takes can be gone into when nothing is left open.
  if (!options.train.empty())
    return;
  for (const Model &model : program->main().models)
    if (!seen.count(&model) && !model.broken &&
        llvm::all_of(model.formals, [](const Formal &f) { return f.value || f.isAxis; }))
      checkModel(model);
}

void Compilation::checkTrain(const Train &block, bool wholeText) {
  train = &block;
  size_t before = diagnostics.errorCount();
  module = nullptr;
  resolveBlock();
  bool whole = false, fits = false;
  if (settings.model && !settings.model->broken) {
    whole = elaborateModel();
    if (!block.broken)
      checkLayoutAxes();
  }
  if (whole) {
    fits = checkData();
    fits &= checkPatterns(); // all tell what they find
    fits &= checkUntil();
  } else {
    checkFiles();
  }
  if (fits && diagnostics.errorCount() == before && wholeText && settings.layoutBuilt && settings.batch) {
    annotate();
    chooseRecompute();
    lower(memoryLimit() ? Stage::Shaped : Stage::Dist); // memory is known at the end
  }
}

void Compilation::checkModel(const Model &model) {
  settings = RunSettings();
  settings.model = &model;
  settings.batch = 2;
  elaborateModel();
}

} // namespace echelon
