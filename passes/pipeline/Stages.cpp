#include "passes/pipeline/Stages.h"

using namespace mlir;
using namespace echelon;
using namespace echelon::dist;
using namespace echelon::pipeline;

bool echelon::pipeline::isShareOfStage(Operation *op, StringRef meshAxis) {
  auto slice = dyn_cast<SliceOp>(op);
  if (!slice || !ech::has(slice.getOver(), meshAxis))
    return false;
  const int m = meshOf(op).index(meshAxis);
  return stateOf(slice.getValue())[m].hold == Hold::Whole && stateOf(slice.getResult())[m].hold == Hold::Sum;
}

FailureOr<std::unique_ptr<Stages>> Stages::of(ech::RepeatOp pass, MeshAttr mesh) {
  std::unique_ptr<Stages> stages(new Stages(pass, mesh));
  if (failed(stages->findLoops()))
    return failure();
  if (!stages->forwardLoop)
    return std::unique_ptr<Stages>();
  stages->findSources();
  stages->place();
  return stages;
}

LogicalResult Stages::findLoops() {
  for (auto loop : pass.block()->getOps<ech::RepeatOp>()) {
    const int m = stagesOf(mesh, loop.getAxis());
    if (m < 0 || mesh.sizeOf(m) == 1 || loop.getCarried().empty())
      continue;
    ech::RepeatOp &known = loop.getReverse() ? backwardLoop : forwardLoop;
    if (known)
      return (emitError(loop.getLoc()) << "E0318: a second repeat along " << loop.getAxis()
                                       << " is not built yet in a pipeline; only one hands on what stages compute")
                 .attachNote(known.getLoc())
             << "the first one";
    known = loop;
    stages = m;
  }
  return success();
}

/// What follows from the two loops.
void Stages::findSources() {
  for (Operation &op : pass.block()->without_terminator())
    op.walk([&](Operation *inner) {
      for (Value operand : inner->getOperands()) {
        Operation *def = operand.getDefiningOp();
        Operation *here = def ? pass.block()->findAncestorOpInBlock(*def) : nullptr;
        if (!here || here == &op)
          continue;
        if (here == forwardLoop || afterForward.contains(here))
          afterForward.insert(&op);
        if (here == backwardLoop || afterBackward.contains(here))
          afterBackward.insert(&op);
      }
    });
}

/// Whether each stage does a part of it, or all do it together.
bool Stages::isDivided(Operation *op) const {
  if (isShareOfStage(op, mesh.nameOf(stages)))
    return false;
  auto isPart = [&](Value v) {
    auto type = dyn_cast<Tensor>(v.getType());
    return type && stateOf(type)[stages].hold != Hold::Whole;
  };
  return llvm::any_of(op->getOperands(), isPart) || llvm::any_of(op->getResults(), isPart);
}

Place Stages::placeByReaders(Operation *op) {
  std::optional<Place> place;
  for (OpOperand &use : op->getUses()) {
    Operation *reader = use.getOwner(), *here = pass.block()->findAncestorOpInBlock(*reader);
    Place there = Place::All;
    if (here == reader && isStageLoop(here)) {
      auto loop = cast<ech::RepeatOp>(here);
      const bool isHandedOn = use.getOperandNumber() < loop.getCarried().size();
      if (isHandedOn)
        there = here == forwardLoop ? Place::First : Place::Last;
    } else if (!isStageLoop(here)) {
      there = placeOf(here); // all, of the yield
    }
    if (place && *place != there)
      return Place::All;
    place = there;
  }
  return place.value_or(Place::All);
}

void Stages::place() {
  for (Operation &op : llvm::reverse(pass.block()->without_terminator())) {
    if (isStageLoop(&op) || isDivided(&op))
      places[&op] = Place::All;
    else if (afterBackward.contains(&op))
      places[&op] = Place::First;
    else if (afterForward.contains(&op))
      places[&op] = Place::Last;
    else
      places[&op] = isShareOfStage(&op, mesh.nameOf(stages)) ? Place::First : placeByReaders(&op);
  }
}
