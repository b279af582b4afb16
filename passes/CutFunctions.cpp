// rt-cut-functions: which function of the program each operation of a step is in.
//
// 1. Of @train, a run of operations of one phase is a function: forward, backward, update. A loop with several phases
//    inside stays in the step, and is cut inside.
// 2. A message that is only started belongs to the run that it is in: what is computed meanwhile is of that run.
// 3. Of @evaluate, what comes before, in and after the loop over batches: evaluate_begin, _batch and _end.
#include "ir/rt/Rt.h"
#include "passes/Passes.h"
#include "passes/Phase.h"
#include "llvm/ADT/SetVector.h"
#include "llvm/ADT/StringMap.h"

namespace echelon {
#define GEN_PASS_DEF_CUTFUNCTIONS
#include "passes/Passes.h.inc"
} // namespace echelon

using namespace mlir;
using namespace echelon;

namespace {
/// Whether an operation, or something in it, is done by a program.
bool hasWork(Operation &op) {
  const auto blocks = rt::blocksOf(&op);
  return blocks.empty() ? !rt::isDeclaration(op)
                        : llvm::any_of(blocks, [](Block *inner) { return llvm::any_of(*inner, hasWork); });
}

bool isStarted(Operation &op) {
  auto message = dyn_cast<rt::CollectiveOp>(op);
  return isa<rt::TicketsOp>(op) || (message && message.isStarted());
}

/// Tickets of what the loop behind starts ahead of its iterations, which that waits for.
bool isOfLoopBehind(Operation &op) {
  return isa<rt::TicketsOp>(op) && llvm::any_of(op.getUsers(), [](Operation *user) {
           auto loop = dyn_cast<rt::ForOp>(user->getParentOp());
           return loop && loop.ahead() == user->getBlock();
         });
}

/// Whether it waits for the last messages of a pipeline's stages.
bool endsTurns(Operation &op) {
  auto wait = dyn_cast<rt::WaitOp>(op);
  return wait && isa<rt::FunctionOp>(op.getParentOp()) &&
         llvm::any_of(wait.getTicket().getUsers(), [](Operation *user) { return isa<rt::SendOp>(user); });
}

void phasesOf(Operation &op, llvm::SmallSetVector<StringRef, 4> &phases) {
  const auto blocks = rt::blocksOf(&op);
  for (Block *block : blocks)
    for (Operation &inner : *block)
      phasesOf(inner, phases);
  if (!blocks.empty())
    return;
  if (!rt::isDeclaration(op) && (!isStarted(op) || isOfLoopBehind(op)))
    phases.insert(phaseOf(&op));
}

class Cut {
public:
  explicit Cut(rt::FunctionOp step) : step(step), builder(step.getContext()) {}
  void train() { phases(step.getBody().front()); }
  void evaluate();

private:
  void phases(Block &block);
  void label(Operation &op, StringRef function) {
    if (!rt::isDeclaration(op))
      op.setAttr(rt::kFunction, builder.getStringAttr(function));
  }
  std::string next(StringRef phase) {
    int n = ++count[phase];
    return n == 1 ? phase.str() : (phase + "_" + Twine(n)).str();
  }

  rt::FunctionOp step;
  Builder builder;
  llvm::StringMap<int> count; // functions of a phase so far
};

void Cut::phases(Block &block) {
  std::string function;
  StringRef phase;
  for (Operation &op : block) {
    llvm::SmallSetVector<StringRef, 4> inside;
    phasesOf(op, inside);
    if (inside.size() > 1 || isa<rt::StagesOp>(op)) {
      function.clear();
      for (Block *inner : rt::blocksOf(&op))
        phases(*inner);
      function.clear();
      continue;
    }
    if (rt::isDeclaration(op) || (!rt::blocksOf(&op).empty() && !hasWork(op)))
      continue;
    if (endsTurns(op)) { // the step itself does
      function.clear();
      continue;
    }
    StringRef wanted = !inside.empty() ? inside[0] : function.empty() ? phaseOf(&op) : phase;
    if (function.empty() || wanted != phase)
      function = next(wanted);
    phase = wanted;
    label(op, function);
  }
}

void Cut::evaluate() {
  StringRef function = "evaluate_begin";
  Block &block = step.getBody().front();
  auto isOverBatches = [](Operation &op) {
    auto loop = dyn_cast<rt::ForOp>(op);
    return loop && loop.getTime() && loop.getCount() == 0;
  };
  if (llvm::none_of(block, isOverBatches)) // nothing depends on samples
    function = "evaluate_end";
  for (Operation &op : block) {
    if (!isOverBatches(op)) {
      label(op, function);
      continue;
    }
    for (Operation &inner : cast<rt::ForOp>(op).getBody().front())
      label(inner, "evaluate_batch");
    function = "evaluate_end";
  }
}

struct CutFunctions : echelon::impl::CutFunctionsBase<CutFunctions> {
  void runOnOperation() override {
    for (auto step : getOperation().getOps<rt::FunctionOp>()) {
      if (step.getSymName() == "train")
        Cut(step).train();
      else if (step.getSymName() == "evaluate")
        Cut(step).evaluate();
    }
  }
};
} // namespace
