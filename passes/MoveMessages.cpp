// rt-move-messages: what is computed while a message is under way moves it on.
//
// 1. A message is under way from its start to its wait; one that a loop starts in each iteration, all through the loop.
// 2. Behind each operation meanwhile that takes long enough, rt.progress. A collective between machines consists of
//    several messages, each of which follows from the ones before: MPI sends the next one when it is called.
// 3. Where workers arrive in real time, behind all such operations of @train: the rank looks whether there is an
// update.
#include "ir/rt/Cost.h"
#include "ir/rt/Rt.h"
#include "ir/run/Run.h"
#include "passes/Passes.h"
#include "passes/Phase.h"

namespace echelon {
#define GEN_PASS_DEF_MOVEMESSAGES
#include "passes/Passes.h.inc"
} // namespace echelon

using namespace mlir;
using namespace echelon;

namespace {
/// Operations that take as long as some calls of MPI: about 50 microseconds of a core.
bool isLong(Operation &op) {
  auto costed = dyn_cast<rt::Costed>(op);
  if (!costed || isa<rt::CollectiveOp, rt::WaitOp>(op))
    return false;
  const rt::Cost cost = costed.cost();
  return cost.flops >= 1'000'000 || cost.bytes >= 500'000;
}

class Mover {
public:
  explicit Mover(bool looks) : looks(looks) {}
  void block(Block &block) {
    for (Operation &op : llvm::make_early_inc_range(block)) {
      if (auto message = dyn_cast<rt::CollectiveOp>(op); message && message.isStarted())
        open.insert(message.toWaitFor());
      else if (auto send = dyn_cast<rt::SendOp>(op); send && send.getTickets())
        open.insert(send.getTickets());
      else if (auto wait = dyn_cast<rt::WaitOp>(op))
        open.erase(wait.getTicket());
      else if (auto next = dyn_cast<rt::NextOp>(op))
        forEachAhead(cast<rt::ForOp>(next->getParentOp()), [&](Value tickets) { open.insert(tickets); });
      else if (auto loop = dyn_cast<rt::ForOp>(op))
        this->loop(loop);
      else if (isa<rt::AtOp, rt::StagesOp>(op))
        for (Block *inner : rt::blocksOf(&op))
          this->block(*inner);
      else if ((looks || !open.empty()) && isLong(op))
        moveOnAfter(op);
    }
  }

private:
  void loop(rt::ForOp loop) {
    loop.walk([&](rt::CollectiveOp message) {
      if (message.getTickets()) // from the second iteration on
        open.insert(message.getTickets());
    });
    block(loop.getBody().front());
    forEachAhead(loop, [&](Value tickets) { open.erase(tickets); });
  }
  static void forEachAhead(rt::ForOp loop, function_ref<void(Value)> act) {
    if (Block *ahead = loop.ahead())
      for (auto message : ahead->getOps<rt::CollectiveOp>())
        act(message.getTickets());
  }
  void moveOnAfter(Operation &op) {
    OpBuilder builder(op.getContext());
    builder.setInsertionPointAfter(&op);
    auto made = rt::ProgressOp::create(builder, op.getLoc(), looks ? builder.getUnitAttr() : UnitAttr());
    copyPhase(&op, made);
  }

  const bool looks;
  llvm::DenseSet<Value> open; // tickets
};

struct MoveMessages : echelon::impl::MoveMessagesBase<MoveMessages> {
  void runOnOperation() override {
    auto policy = run::only<run::SyncOp>(getOperation());
    for (auto step : getOperation().getOps<rt::FunctionOp>())
      Mover(policy && policy.isLive() && step.getSymName() == "train").block(step.getBody().front());
  }
};
} // namespace
