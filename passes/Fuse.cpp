// dist-fuse: chains of element-wise operations, and sums of them, become one loop nest.
//
// In each block:
// 1. `dot` without axes of its own becomes a product and a sum.
// 2. Every element-wise operation and every sum is a group; a producer's group joins its consumer's where the union is
//    one loop nest (one set of axes, no use of a sum inside) and no path between them leads outside.
// 3. What a group reads of another is computed in both, if little computing makes it of one stored value: no store
// then.
// 4. Groups and other operations are put in order again, each as late as its last operation stood.
// 5. Each group becomes an rt.group; free values are made anew inside.
#include "ir/dist/State.h"
#include "ir/rt/Rt.h"
#include "mlir/IR/Builders.h"
#include "mlir/IR/IRMapping.h"
#include "passes/Passes.h"
#include <queue>

namespace echelon {
#define GEN_PASS_DEF_FUSE
#include "passes/Passes.h.inc"
} // namespace echelon

using namespace mlir;
using namespace echelon;
using ech::Axis;

namespace {
constexpr size_t kLargestGroup = 64; // operations: a loop that people can still read

bool isFree(Operation *op) {
  if (auto read = dyn_cast<ech::ReadOp>(op))
    return read.getSource() == ech::kValidSamples;
  return isa<ech::ConstantOp, ech::CountOp, ech::ScalarOp, ech::IndexOp, ech::PositionOp>(op);
}
bool isSum(Operation *op) {
  auto reduce = dyn_cast<ech::ReduceOp>(op);
  return reduce && reduce.getKind() == ech::Reduction::Sum;
}
/// Whether coordinate 0 keeps all elements and the others have zeros.
bool isShareOfSum(Operation *op) {
  auto slice = dyn_cast<dist::SliceOp>(op);
  if (!slice)
    return false;
  auto from = dist::stateOf(slice.getValue()).getEntries(), to = dist::stateOf(slice.getResult()).getEntries();
  return llvm::all_of(llvm::zip(from, to), [](auto pair) {
    auto &[before, after] = pair;
    return before == after || after.hold == dist::Hold::Sum;
  });
}
bool isFusable(Operation *op) {
  return isa<ech::MapOp, ech::ExpandOp, dist::MaskOp>(op) || isShareOfSum(op) || isSum(op);
}

/// Whether computing it again in every iteration of a further loop costs little beside the loads and stores.
bool isCheap(Operation *op) {
  auto costed = dyn_cast<ech::Costed>(op);
  return !costed || costed.flops() <= 2 * ech::tensor(op->getResult(0)).count();
}

struct Group {
  SmallVector<Operation *> ops; // in the order of the block
  SmallVector<Axis> space;
};

class BlockFusion {
public:
  BlockFusion(Block &block, dist::MeshAttr mesh) : block(block), mesh(mesh) {}
  void run();

private:
  SmallVector<Axis> axesOf(Value v) {
    ech::Tensor type = ech::tensor(v);
    return SmallVector<Axis>((mesh && type.getState() ? dist::localType(type, mesh) : type).getAxes());
  }
  SmallVector<Axis> spaceOf(Operation *op);
  bool join(Group *from, Group *into);
  bool escapes(Operation *op, Group *a, Group *b);
  bool leadsOutside(Group *from, Group *into);
  bool isMadeOf(Value v, Group *into, SmallVectorImpl<Value> &stored, SmallVectorImpl<Operation *> &made);
  void makeAgain(Group &group);
  void dropUnused();
  void order();
  void build(Group &group, OpBuilder &builder);

  Block &block;
  dist::MeshAttr mesh;
  DenseMap<Operation *, int64_t> place;
  std::vector<std::unique_ptr<Group>> groups;
  DenseMap<Operation *, Group *> groupOf;
};

/// False where an axis has two sizes.
bool unite(SmallVector<Axis> &space, ArrayRef<Axis> more) {
  for (const Axis &a : more) {
    auto *at = llvm::find_if(space, [&](const Axis &b) { return b.name == a.name; });
    if (at == space.end())
      space.push_back(a);
    else if (at->size != a.size)
      return false;
  }
  return true;
}
bool contains(ArrayRef<Axis> outer, ArrayRef<Axis> inner) {
  return llvm::all_of(inner, [&](const Axis &a) { return llvm::is_contained(outer, a); });
}

SmallVector<Axis> BlockFusion::spaceOf(Operation *op) {
  SmallVector<Axis> space = axesOf(op->getResult(0));
  for (Value v : op->getOperands())
    unite(space, axesOf(v));
  return space;
}

/// Whether the result is used outside of both groups.
bool BlockFusion::escapes(Operation *op, Group *a, Group *b) {
  return llvm::any_of(op->getResult(0).getUsers(), [&](Operation *user) {
    Group *of = groupOf.lookup(user);
    return !of || (of != a && of != b);
  });
}

/// Whether something outside of both needs `from` and is needed by `into`.
bool BlockFusion::leadsOutside(Group *from, Group *into) {
  SmallVector<Operation *> work;
  DenseSet<Operation *> seen;
  auto push = [&](Operation *op, bool direct) {
    for (Value result : op->getResults())
      for (Operation *user : result.getUsers()) {
        Operation *at = block.findAncestorOpInBlock(*user);
        if (!at)
          continue;
        Group *of = groupOf.lookup(at);
        if (of == from || (direct && of == into))
          continue;
        if (seen.insert(at).second)
          work.push_back(at);
      }
  };
  for (Operation *op : from->ops)
    push(op, true);
  while (!work.empty()) {
    Operation *op = work.pop_back_val();
    Group *of = groupOf.lookup(op);
    if (of == into)
      return true;
    if (of && of != from) // who reaches one of a group reaches all of it
      for (Operation *other : of->ops)
        push(other, false);
    else
      push(op, false);
  }
  return false;
}

bool BlockFusion::join(Group *from, Group *into) {
  if (from == into || from->ops.size() + into->ops.size() > kLargestGroup ||
      from->ops[0]->getAttr(ech::kPhase) != into->ops[0]->getAttr(ech::kPhase))
    return false;
  SmallVector<Axis> space(into->space);
  if (!unite(space, from->space))
    return false;
  bool same = space.size() == from->space.size() && space.size() == into->space.size();
  if (!same) {
    // fewer axes: only inside, and only what is cheap or comes once a row
    if (!contains(into->space, from->space))
      return false;
    bool outermost = contains(ArrayRef(into->space).take_front(from->space.size()), from->space);
    for (Operation *op : from->ops)
      if (isSum(op) || escapes(op, from, into) || (!outermost && !isCheap(op)))
        return false;
  }
  for (Operation *op : from->ops) // a sum is there only after the loops
    if (isSum(op))
      for (Operation *user : op->getResult(0).getUsers())
        if (groupOf.lookup(user) == into)
          return false;
  for (Operation *op : into->ops)
    if (isSum(op))
      for (Operation *user : op->getResult(0).getUsers())
        if (groupOf.lookup(user) == from)
          return false;
  if (leadsOutside(from, into))
    return false;
  for (Operation *op : from->ops) {
    into->ops.push_back(op);
    groupOf[op] = into;
  }
  llvm::sort(into->ops, [&](Operation *a, Operation *b) { return place[a] < place[b]; });
  into->space = space;
  from->ops.clear();
  return true;
}

void splitInnerProducts(Block &block) {
  for (ech::DotOp op : llvm::make_early_inc_range(block.getOps<ech::DotOp>())) {
    ech::Tensor a = ech::tensor(op.getLhs()), b = ech::tensor(op.getRhs());
    if (a.rank() != b.rank() || !llvm::all_of(a.getAxes(), [&](const Axis &x) { return b.has(x.name); }))
      continue;
    OpBuilder builder(op);
    auto product =
        ech::MapOp::create(builder, op.getLoc(), a, ech::Function::Mul, ValueRange{op.getLhs(), op.getRhs()});
    auto sum = ech::ReduceOp::create(builder, op.getLoc(), op.getType(), ech::Reduction::Sum, product.getResult(),
                                     op.getOver());
    for (Operation *made : {product.getOperation(), sum.getOperation()})
      if (Attribute phase = op->getAttr(ech::kPhase))
        made->setAttr(ech::kPhase, phase);
    op.replaceAllUsesWith(sum.getResult());
    op.erase();
  }
}

void BlockFusion::run() {
  splitInnerProducts(block);
  int64_t next = 0;
  for (Operation &op : block) {
    place[&op] = next++;
    if (!isFusable(&op))
      continue;
    auto group = std::make_unique<Group>();
    group->ops.push_back(&op);
    group->space = spaceOf(&op);
    groupOf[&op] = group.get();
    groups.push_back(std::move(group));
  }
  for (bool again = true; again;) {
    again = false;
    for (Operation &op : block)
      if (groupOf.count(&op))
        for (Value v : op.getOperands())
          if (Operation *producer = v.getDefiningOp(); producer && groupOf.count(producer))
            again |= join(groupOf[producer], groupOf[&op]);
  }
  // what is a view or one kernel call by itself stays as it is
  for (auto &group : groups) {
    bool views = llvm::all_of(group->ops, [](Operation *op) { return isa<ech::ExpandOp>(op); });
    if (views || (group->ops.size() == 1 && isSum(group->ops[0]))) {
      for (Operation *op : group->ops)
        groupOf.erase(op);
      group->ops.clear();
    }
  }
  for (auto &group : groups)
    if (!group->ops.empty())
      makeAgain(*group);
  dropUnused();
  order();
}

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

void BlockFusion::order() {
  // nodes: groups by their last operation, other operations by themselves
  auto nodeOf = [&](Operation *op) -> Operation * {
    Group *group = groupOf.lookup(op);
    return group ? group->ops.back() : op;
  };
  DenseMap<Operation *, DenseSet<Operation *>> needs, feeds;
  SmallVector<Operation *> nodes;
  Operation *terminator = block.mightHaveTerminator() ? block.getTerminator() : nullptr;
  Operation *lastEffect = nullptr;
  auto need = [&](Operation *node, Operation *needed) {
    if (needed != node && needs[node].insert(needed).second)
      feeds[needed].insert(node);
  };
  for (Operation &op : block) {
    if (&op == terminator)
      continue;
    Operation *node = nodeOf(&op);
    if (node == &op)
      nodes.push_back(&op);
    op.walk([&](Operation *inner) {
      for (Value v : inner->getOperands())
        if (Operation *producer = v.getDefiningOp())
          if (Operation *at = block.findAncestorOpInBlock(*producer); at && at != &op)
            need(node, nodeOf(at));
    });
    if (isa<dist::StartOp, dist::WaitOp, ech::ReportOp>(op)) { // these keep their order
      if (lastEffect)
        need(node, lastEffect);
      lastEffect = &op;
    }
  }
  auto later = [&](Operation *a, Operation *b) { return place[a] > place[b]; };
  std::priority_queue<Operation *, std::vector<Operation *>, decltype(later)> ready(later);
  DenseMap<Operation *, size_t> open;
  for (Operation *node : nodes)
    if ((open[node] = needs[node].size()) == 0)
      ready.push(node);
  OpBuilder builder(block.getParentOp()->getContext());
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
  for (Operation *node : sorted) {
    if (Group *group = groupOf.lookup(node)) {
      for (Operation *op : group->ops)
        terminator ? op->moveBefore(terminator) : op->moveBefore(&block, block.end());
    } else {
      terminator ? node->moveBefore(terminator) : node->moveBefore(&block, block.end());
    }
  }
  for (auto &group : groups)
    if (!group->ops.empty())
      build(*group, builder);
}

void BlockFusion::build(Group &group, OpBuilder &builder) {
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
  if (Attribute phase = group.ops[0]->getAttr(ech::kPhase))
    made->setAttr(ech::kPhase, phase);
  Block &body = made.getBody().emplaceBlock();
  auto isInside = [&](OpOperand &use) { return inside.contains(use.getOwner()); };
  for (Value v : inputs)
    v.replaceUsesWithIf(body.addArgument(v.getType(), v.getLoc()), isInside);
  for (auto [old, result] : llvm::zip(results, made.getOutputs()))
    old.replaceUsesWithIf(result, [&](OpOperand &use) { return !inside.contains(use.getOwner()); });
  OpBuilder within = OpBuilder::atBlockEnd(&body);
  for (Operation *op : free) {
    Operation *copy = within.clone(*op);
    op->getResult(0).replaceUsesWithIf(copy->getResult(0), isInside);
  }
  for (Operation *op : group.ops)
    op->moveBefore(&body, body.end());
  within.setInsertionPointToEnd(&body);
  rt::YieldOp::create(within, made.getLoc(), results);
}

struct Fuse : echelon::impl::FuseBase<Fuse> {
  void runOnOperation() override {
    ModuleOp module = getOperation();
    dist::MeshAttr mesh = dist::meshOf(module);
    SmallVector<Block *> blocks;
    for (auto step : module.getOps<ech::StepOp>()) {
      step.walk([&](ech::RepeatOp repeat) { blocks.push_back(repeat.block()); });
      blocks.push_back(&step.getBody().front());
    }
    for (Block *block : blocks)
      BlockFusion(*block, mesh).run();
    for (auto step : module.getOps<ech::StepOp>())
      step.walk([](Operation *op) {
        if (isFree(op) && op->use_empty())
          op->erase();
      });
  }
};
} // namespace
