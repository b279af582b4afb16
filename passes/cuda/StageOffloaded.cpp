// What is offloaded from a GPU comes to the device where it is not computed in pieces.
//
// 1. A moment that one rule alone touches in a function is left: it comes in pieces, with the rule's others.
// 2. Any other has a buffer of the step's work, in which it is from the first operation that touches it to the last;
//    where something writes it, it goes back then. What one stage of a pipeline alone holds does so there alone.
#include "passes/cuda/StageOffloaded.h"
#include "ir/rt/Offload.h"
#include "passes/Moments.h"
#include "passes/Phase.h"
#include "passes/UpdateLoop.h"

using namespace mlir;
using namespace echelon;

namespace {
bool touches(ArrayRef<Value> some, rt::AllocOp alloc) {
  return llvm::any_of(some, [&](Value v) { return rt::allocOf(v) == alloc; });
}

/// Where a buffer is in use, as seen from its own block; and whether anything writes it.
struct Life {
  explicit Life(rt::AllocOp alloc) : alloc(alloc) {
    rt::forEachUser(alloc.getBuffer(), [&](Operation *user) {
      users.push_back(user);
      add(user);
      isWritten |= touches(cast<rt::Touches>(user).writes(), alloc);
      if (auto started = dyn_cast<rt::Communicates>(user); started && started.isStarted())
        for (Operation *wait : started.toWaitFor().getUsers()) // others that keep tickets there come before it
          add(wait);
    });
  }

  SmallVector<Operation *> users;
  Operation *first = nullptr, *last = nullptr;
  bool isWritten = false;

private:
  void add(Operation *user) {
    Operation *at = alloc->getBlock()->findAncestorOpInBlock(*user);
    if (!first || at->isBeforeInBlock(first))
      first = at;
    if (!last || last->isBeforeInBlock(at))
      last = at;
  }

  rt::AllocOp alloc;
};

/// Whether a rule, once in its function, has the buffer as rows and nothing else touches it.
bool isOfOneRule(rt::AllocOp alloc, const Life &life, const SymbolTable &symbols) {
  auto loop = dyn_cast<rt::FusedOp>(life.users.front());
  if (!loop || !isOfUpdate(loop) || !llvm::all_equal(life.users))
    return false;
  Operation *in = loop->getParentOp();
  if (loop->getBlock() != alloc->getBlock() && !(isa<rt::AtOp>(in) && in->getBlock() == alloc->getBlock()))
    return false;
  const UpdateLoop rule(loop, symbols);
  return rule.isOne() && llvm::all_of(loop->getOperands(), [&](Value operand) {
           return !isa<rt::Buffer>(operand.getType()) || rt::allocOf(operand) != alloc ||
                  llvm::is_contained(rule.rows, operand);
         });
}

void stage(rt::AllocOp alloc, const Life &life) {
  OpBuilder b(alloc.getContext());
  b.setInsertionPointAfter(alloc); // before views of it
  auto there = rt::AllocOp::create(b, alloc.getLoc(), rt::buffer(alloc.getBuffer()),
                                   rt::ArenaAttr::get(b.getContext(), rt::Arena::Work), nullptr, nullptr);
  if (auto at = dyn_cast<rt::AtOp>(life.first))
    b.setInsertionPointToStart(&at.getBody().front());
  else
    b.setInsertionPoint(life.first);
  auto fetch = rt::FetchOp::create(b, life.first->getLoc(), there.getBuffer(), alloc.getBuffer());
  copyPhase(isa<rt::AtOp>(life.first) ? life.users.front() : life.first, fetch);
  alloc.getBuffer().replaceAllUsesExcept(there.getBuffer(), fetch);
  if (!life.isWritten)
    return;
  if (auto at = dyn_cast<rt::AtOp>(life.last))
    b.setInsertionPointToEnd(&at.getBody().front());
  else
    b.setInsertionPointAfter(life.last);
  auto back = rt::WriteBackOp::create(b, life.last->getLoc(), alloc.getBuffer(), there.getBuffer());
  copyPhase(isa<rt::AtOp>(life.last) ? life.users.front() : life.last, back);
}
} // namespace

void echelon::stageOffloaded(ModuleOp module) {
  const SymbolTable symbols(module);
  for (auto step : module.getOps<rt::FunctionOp>())
    for (auto alloc : llvm::to_vector(step.getBody().front().getOps<rt::AllocOp>())) {
      if (alloc.getArena() != rt::Arena::State || !isMoment(symbols.lookup<ech::VariableOp>(*alloc.getOf())))
        continue;
      const Life life(alloc);
      if (!life.users.empty() && !isOfOneRule(alloc, life, symbols))
        stage(alloc, life);
    }
}
