// What a group reads of another one, computed in both.
#include "mlir/IR/IRMapping.h"
#include "passes/fuse/BlockFusion.h"

using namespace mlir;
using namespace echelon;
using namespace echelon::fuse;

/// Whether cheap operations of other groups make v of `stored`, which is in memory in any case, and of what has fewer
/// axes. They are added to `made`, first those that come first.
bool BlockFusion::isMadeOf(Value v, Group *into, SmallVectorImpl<Value> &stored, SmallVectorImpl<Operation *> &made) {
  auto op = v.getDefiningOp<ech::MapOp>();
  Group *of = op ? groupOf.lookup(op) : nullptr;
  const bool whole = axesOf(v).size() == into->space.size(); // else it comes once a row
  if (!of || (whole && !isCheap(op)) || op->getAttr(ech::kPhase) != into->ops[0]->getAttr(ech::kPhase))
    return false;
  for (Value x : op.getOperands()) {
    Operation *producer = x.getDefiningOp();
    if ((producer && (isFree(producer) || llvm::is_contained(made, producer))) || llvm::is_contained(stored, x))
      continue;
    Group *from = producer ? groupOf.lookup(producer) : nullptr;
    if (from == into)
      return false;
    if (!from || escapes(producer, from, into)) {
      if (axesOf(x).size() == into->space.size())
        stored.push_back(x);
    } else if (!isMadeOf(x, into, stored, made)) {
      return false;
    }
  }
  made.push_back(op);
  return true;
}

void BlockFusion::makeAgain(Group &group) {
  SmallVector<Value> read;
  for (Operation *op : group.ops)
    for (Value v : op->getOperands())
      if (Group *from = groupOf.lookup(v.getDefiningOp()); from && from != &group && !llvm::is_contained(read, v))
        read.push_back(v);
  SmallVector<Operation *> again;
  IRMapping copies;
  OpBuilder builder(group.ops.front());
  for (Value v : read) {
    SmallVector<Value> stored;
    SmallVector<Operation *> made;
    Operation *producer = v.getDefiningOp();
    if (escapes(producer, groupOf[producer], &group) || !isMadeOf(v, &group, stored, made) || stored.size() > 1 ||
        group.ops.size() + again.size() + made.size() > kLargestGroup)
      continue;
    for (Operation *op : made)
      if (!copies.contains(op->getResult(0)))
        again.push_back(builder.clone(*op, copies));
  }
  for (Operation *op : group.ops)
    for (OpOperand &operand : op->getOpOperands())
      operand.set(copies.lookupOrDefault(operand.get()));
  for (Operation *op : again)
    groupOf[op] = &group;
  group.ops.insert(group.ops.begin(), again.begin(), again.end());
}

/// What is computed elsewhere again, and was for that alone.
void BlockFusion::dropUnused() {
  for (bool again = true; again;) {
    again = false;
    for (auto &group : groups)
      for (Operation *op : llvm::to_vector(llvm::reverse(group->ops)))
        if (op->use_empty()) {
          llvm::erase(group->ops, op);
          groupOf.erase(op);
          op->erase();
          again = true;
        }
  }
}
