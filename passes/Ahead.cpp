#include "passes/Ahead.h"
#include "passes/Phase.h"
#include "llvm/ADT/SetVector.h"

using namespace mlir;
using namespace echelon;

bool echelon::isOfOnePhase(rt::ForOp loop) {
  llvm::SmallSetVector<StringRef, 2> phases;
  loop.walk([&](rt::Touches op) { phases.insert(phaseOf(op)); });
  return phases.size() == 1;
}

rt::NextOp echelon::nextOf(rt::ForOp loop, Operation *like) {
  if (loop.ahead())
    return *loop.getBody().getOps<rt::NextOp>().begin();
  loop.addAhead();
  OpBuilder b = OpBuilder::atBlockBegin(&loop.getBody().front());
  auto next = rt::NextOp::create(b, loop.getLoc());
  copyPhase(like, next);
  return next;
}
