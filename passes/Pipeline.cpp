// The order of the passes. Passes.td says why each is where it is.
#include "mlir/Pass/PassManager.h"
#include "passes/Passes.h"

using namespace echelon;

/// How a program reads whose arenas are planned.
static void shape(mlir::OpPassManager &manager, Target target) {
  const bool isGpu = target == Target::Gpu;
  manager.addPass(createOutlineUpdates());
  manager.addPass(createCutFunctions());
  manager.addPass(createNameSizes());
  manager.addPass(createBindBuffers({!isGpu}));
  manager.addPass(createNameValues());
  manager.addPass(isGpu ? createMakeKernels() : createMakeLoops());
}

void echelon::buildPipeline(mlir::OpPassManager &manager, Stage until, PipelineOptions options) {
  manager.addPass(createRecogniseAttention());
  manager.addPass(createKeepProducts());
  manager.addPass(createDifferentiate());
  manager.addPass(createCompress());
  manager.addPass(createSync());
  manager.addPass(createSplitTime());
  manager.addPass(createExpandUpdate());
  manager.addPass(createSimplify());
  manager.addPass(createChooseTypes());
  manager.addPass(createCarryThrough());
  if (until == Stage::Ech)
    return;
  manager.addPass(createBalanceStages());
  manager.addPass(createAssignLayout());
  manager.addPass(createFormCollectives());
  manager.addPass(createFormPipeline());
  manager.addPass(createSplitNorms());
  manager.addPass(createSplitInside());
  manager.addPass(createOverlapLoops({options.loopBytes}));
  manager.addPass(createGroupMessages());
  manager.addPass(createOverlap());
  if (options.target == Target::Gpu)
    manager.addPass(createFuseEpilogues());
  if (until == Stage::Dist)
    return;
  manager.addPass(createFuse());
  manager.addPass(createLowerToRt());
  if (options.target == Target::Gpu)
    manager.addPass(createPadRows());
  manager.addPass(createSelectKernels({options.target == Target::Gpu}));
  manager.addPass(createGatherAhead());
  manager.addPass(createChooseAlgorithms({options.target == Target::Gpu}));
  manager.addPass(createPlanArenas());
  manager.addPass(createMoveMessages());
  shape(manager, options.target);
  if (until == Stage::Shaped)
    return;
  manager.addPass(createProveMessages());
}

void echelon::shapeProgram(mlir::OpPassManager &manager, Target target) {
  shape(manager, target);
  manager.addPass(createProveMessages());
}
