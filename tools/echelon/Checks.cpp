// `echelon check`: everything that can be told about a spec in one go. An error ends what follows from it, nothing
// else.
#include "tools/echelon/Compilation.h"

using namespace echelon::frontend;

namespace echelon {

void Compilation::check() {
  if (!parse() && !program)
    return;
  std::set<const Model *> seen;
  for (const Train &block : program->main().trains)
    if (options.train.empty() || block.name.text == options.train) {
      checkTrain(block);
      seen.insert(trainPlan.model);
    }
  // Models that no train block takes can be gone into when nothing is left open.
  if (!options.train.empty())
    return;
  for (const Model &model : program->main().models)
    if (!seen.count(&model) && !model.broken &&
        llvm::all_of(model.formals, [](const Formal &f) { return f.value || f.isAxis; }))
      checkModel(model);
}

void Compilation::checkTrain(const Train &block) {
  train = &block;
  size_t before = diagnostics.errorCount();
  module = nullptr;
  planBlock();
  bool whole = false;
  if (trainPlan.model && !trainPlan.model->broken) {
    whole = elaborateModel();
    if (!block.broken)
      checkLayoutAxes();
  }
  if (!whole)
    checkFiles();
  else if (checkData() & checkPatterns() && diagnostics.errorCount() == before && trainPlan.layoutBuilt) {
    annotate();
    lower(Stage::Dist);
  }
}

void Compilation::checkModel(const Model &model) {
  trainPlan = TrainPlan();
  trainPlan.model = &model;
  trainPlan.batch = 2;
  elaborateModel();
}

} // namespace echelon
