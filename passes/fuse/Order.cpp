// Groups and other operations are put in order, and each group becomes an rt.group.
#include "passes/Phase.h"
#include "passes/fuse/BlockFusion.h"
#include <queue>

using namespace mlir;
using namespace echelon;
using namespace echelon::fuse;

/// What stands for an operation in the order: of a group, its last one.
Operation *BlockFusion::nodeOf(Operation *op) {
  Group *group = groupOf.lookup(op);
  return group ? group->ops.back() : op;
}

namespace {
/// Nodes, and which of them need which.
class Dependencies {
public:
  void add(Operation *node) { nodes.push_back(node); }
  void need(Operation *node, Operation *needed) {
    if (needed != node && needs[node].insert(needed).second)
      feeds[needed].insert(node);
  }
  /// Of those that need nothing any more, the one that stood first comes next.
  SmallVector<Operation *> sorted(const DenseMap<Operation *, int64_t> &place) {
    auto later = [&](Operation *a, Operation *b) { return place.lookup(a) > place.lookup(b); };
    std::priority_queue<Operation *, std::vector<Operation *>, decltype(later)> ready(later);
    DenseMap<Operation *, size_t> open;
    for (Operation *node : nodes)
      if ((open[node] = needs[node].size()) == 0)
        ready.push(node);
    SmallVector<Operation *> sorted;
    while (!ready.empty()) {
      Operation *node = ready.top();
      ready.pop();
      sorted.push_back(node);
      for (Operation *user : feeds[node])
        if (--open[user] == 0)
          ready.push(user);
    }
    assert(sorted.size() == nodes.size() && "groups depend on each other in a circle");
    return sorted;
  }

private:
  SmallVector<Operation *> nodes;
  DenseMap<Operation *, DenseSet<Operation *>> needs, feeds;
};
} // namespace

void BlockFusion::order() {
  Operation *terminator = block.mightHaveTerminator() ? block.getTerminator() : nullptr;
  Operation *lastEffect = nullptr;
  Dependencies dependencies;
  for (Operation &op : block) {
    if (&op == terminator)
      continue;
    Operation *node = nodeOf(&op);
    if (node == &op)
      dependencies.add(node);
    op.walk([&](Operation *inner) {
      for (Value v : inner->getOperands())
        if (Operation *producer = v.getDefiningOp())
          if (Operation *at = block.findAncestorOpInBlock(*producer); at && at != &op)
            dependencies.need(node, nodeOf(at));
    });
    // these keep their order
    if (isa<dist::StartOp, dist::WaitOp, dist::StartEachOp, dist::WaitEachOp, ech::ReportOp>(op)) {
      if (lastEffect)
        dependencies.need(node, lastEffect);
      lastEffect = &op;
    }
  }
  for (Operation *node : dependencies.sorted(place)) {
    Group *group = groupOf.lookup(node);
    for (Operation *op : group ? ArrayRef(group->ops) : ArrayRef(node))
      terminator ? op->moveBefore(terminator) : op->moveBefore(&block, block.end());
  }
}

void BlockFusion::build(Group &group) {
  OpBuilder builder(block.getParentOp()->getContext());
  builder.setInsertionPointAfter(group.ops.back());
  DenseSet<Operation *> inside(group.ops.begin(), group.ops.end());
  SmallVector<Value> inputs, results;
  SmallVector<Operation *> free;
  for (Operation *op : group.ops) {
    for (Value v : op->getOperands()) {
      Operation *producer = v.getDefiningOp();
      if (producer && inside.contains(producer))
        continue;
      if (producer && isFree(producer)) {
        if (!llvm::is_contained(free, producer))
          free.push_back(producer);
      } else if (!llvm::is_contained(inputs, v)) {
        inputs.push_back(v);
      }
    }
    if (llvm::any_of(op->getResult(0).getUsers(), [&](Operation *user) { return !inside.contains(user); }))
      results.push_back(op->getResult(0));
  }
  SmallVector<Type> types = llvm::map_to_vector(results, [](Value v) { return v.getType(); });
  auto made = rt::GroupOp::create(builder, group.ops.back()->getLoc(), types, inputs);
  copyPhase(group.ops[0], made);
  Block &body = made.getBody().emplaceBlock();
  // Operand by operand: what all groups read has as many uses as there are groups.
  DenseMap<Value, Value> within;
  for (Value v : inputs)
    within[v] = body.addArgument(v.getType(), v.getLoc());
  for (auto [old, result] : llvm::zip(results, made.getOutputs()))
    old.replaceUsesWithIf(result, [&](OpOperand &use) { return !inside.contains(use.getOwner()); });
  OpBuilder inner = OpBuilder::atBlockEnd(&body);
  for (Operation *op : free)
    within[op->getResult(0)] = inner.clone(*op)->getResult(0);
  for (Operation *op : group.ops) {
    for (OpOperand &operand : op->getOpOperands())
      if (Value value = within.lookup(operand.get()))
        operand.set(value);
    op->moveBefore(&body, body.end());
  }
  inner.setInsertionPointToEnd(&body);
  rt::YieldOp::create(inner, made.getLoc(), results);
}
