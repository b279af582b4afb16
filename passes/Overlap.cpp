// Gradients travel while the backward pass goes on. (Those of loops: OverlapLoops.cpp.)
//   0. What the reports of losses and of the norm need comes before the rest of the update, the norm last: a step whose
//      loss or norm is not finite changes nothing.
//   1. Local operations of the update that only prepare a message (slices, masks) move up after what they take, but
//      for what a loop's iterations started.
//   2. A message of the update that sums becomes a dist.start after the last of its values and a dist.wait before the
//      first operation that reads a result, if anything is computed in between. One of a stage alone is done at once.
//   3. What a loop's iterations started is waited for before the first operation that reads it.
#include "ir/dist/Placed.h"
#include "passes/Passes.h"
#include "passes/Phase.h"

namespace echelon {
#define GEN_PASS_DEF_OVERLAP
#include "passes/Passes.h.inc"
} // namespace echelon
using namespace mlir;
using namespace echelon;
using namespace echelon::dist;

namespace {
struct Overlap : echelon::impl::OverlapBase<Overlap> {
  void runOnOperation() override {
    getOperation().walk([](ech::ReportOp report) {
      if (report.getKind() == ech::ReportKind::Norm)
        moveUp(report);
    });
    SmallVector<Operation *> local, messages, waits;
    getOperation().walk([&](Operation *op) {
      if (!isOfUpdate(op))
        return;
      if (isa<SliceOp, MaskOp>(op))
        local.push_back(op);
      else if (isa<ReduceScatterOp, AllReduceOp>(op) && !op->hasAttr("reduction") &&
               !placeOf(stateOf(op->getOperand(0))))
        messages.push_back(op);
      else if (isa<WaitEachOp>(op))
        waits.push_back(op);
    });
    for (Operation *op : local)
      if (Operation *last = lastDefinition(op); last && !isa<WaitEachOp>(last))
        op->moveAfter(last);
    for (Operation *op : messages)
      start(op);
    for (Operation *op : waits)
      if (Operation *first = firstUser(op))
        op->moveBefore(first);
  }

  /// Brings the report of the norm behind those of losses, and moves the operations of the update that come before it,
  /// and that no report needs, after it.
  static void moveUp(ech::ReportOp norm) {
    Block *block = norm->getBlock();
    SmallPtrSet<Operation *, 32> needed;
    SmallVector<Operation *> open, rest;
    Operation *last = norm;
    for (auto report : block->getOps<ech::ReportOp>()) {
      open.push_back(report);
      if (last->isBeforeInBlock(report))
        last = report;
    }
    while (!open.empty()) {
      Operation *op = open.pop_back_val();
      if (!needed.insert(op).second)
        continue;
      op->walk([&](Operation *inner) {
        for (Value operand : inner->getOperands())
          if (Operation *def = operand.getDefiningOp())
            if (Operation *here = block->findAncestorOpInBlock(*def))
              open.push_back(here);
      });
    }
    for (Operation &op : llvm::make_range(block->begin(), last->getIterator()))
      if (isOfUpdate(&op) && !needed.contains(&op))
        rest.push_back(&op);
    if (last != norm)
      norm->moveAfter(last);
    last = norm;
    for (Operation *op : rest) {
      op->moveAfter(last);
      last = op;
    }
  }

  /// The last operation of op's block that makes one of its operands; null where all are block arguments or come from
  /// outside.
  static Operation *lastDefinition(Operation *op) {
    Operation *last = nullptr;
    for (Value operand : op->getOperands()) {
      Operation *def = operand.getDefiningOp();
      if (def && def->getBlock() == op->getBlock() && (!last || last->isBeforeInBlock(def)))
        last = def;
    }
    return last;
  }
  static Operation *firstUser(Operation *op) {
    Operation *first = nullptr;
    for (Operation *user : op->getUsers()) {
      Operation *here = op->getBlock()->findAncestorOpInBlock(*user);
      if (!first || here->isBeforeInBlock(first))
        first = here;
    }
    return first;
  }
  /// Whether the operation takes time that a message can hide behind.
  static bool isWork(Operation *op) {
    if (op->getName().getDialectNamespace() != ech::EchDialect::getDialectNamespace())
      return false;
    return op->getNumRegions() || llvm::any_of(op->getResultTypes(), [](Type type) {
             auto tensor = dyn_cast<Tensor>(type);
             return tensor && tensor.rank() > 0;
           });
  }

  static void start(Operation *op) {
    Operation *from = lastDefinition(op), *to = firstUser(op);
    if (!from || !to)
      return;
    bool work = false;
    for (Operation *between = from->getNextNode(); between && between != to; between = between->getNextNode())
      work |= between != op && isWork(between);
    if (!work)
      return;
    OpBuilder builder(op->getContext());
    builder.setInsertionPointAfter(from);
    OperationState state(op->getLoc(), StartOp::getOperationName());
    state.addOperands(op->getOperands());
    state.addTypes(TokenType::get(op->getContext()));
    state.addAttributes(op->getAttrs());
    state.addAttribute("kind", builder.getStringAttr(op->getName().stripDialect()));
    Operation *begin = builder.create(state);
    builder.setInsertionPoint(to);
    auto end = WaitOp::create(builder, op->getLoc(), op->getResultTypes(), begin->getResult(0));
    copyPhase(op, end);
    op->replaceAllUsesWith(end.getResults());
    op->erase();
  }
};
} // namespace
