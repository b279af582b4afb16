// Which groups may become one.
#include "ir/dist/Placed.h"
#include "passes/fuse/BlockFusion.h"
#include "passes/pipeline/Turns.h"

using namespace mlir;
using namespace echelon;
using namespace echelon::fuse;

namespace {
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
} // namespace

bool fuse::isFree(Operation *op) {
  if (auto read = dyn_cast<ech::ReadOp>(op))
    return read.getSource() == ech::kValidSamples;
  return isa<ech::ConstantOp, ech::CountOp, ech::ScalarOp, ech::IndexOp, ech::PositionOp>(op);
}
bool fuse::isSum(Operation *op) {
  auto reduce = dyn_cast<ech::ReduceOp>(op);
  return reduce && reduce.getKind() == ech::Reduction::Sum;
}
bool fuse::isFusable(Operation *op) {
  return isa<ech::MapOp, ech::ExpandOp, dist::MaskOp>(op) || isShareOfSum(op) || isSum(op);
}

bool fuse::isCheap(Operation *op) {
  auto costed = dyn_cast<ech::Costed>(op);
  return !costed || costed.flops() <= 2 * ech::tensor(op->getResult(0)).count();
}

SmallVector<Axis> BlockFusion::spaceOf(Operation *op) {
  SmallVector<Axis> space = axesOf(op->getResult(0));
  for (Value v : op->getOperands())
    unite(space, axesOf(v));
  return space;
}

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
  const int64_t last = place[into->ops.back()];
  auto push = [&](Operation *op, bool direct) {
    for (Value result : op->getResults())
      for (Operation *user : result.getUsers()) {
        Operation *at = block.findAncestorOpInBlock(*user);
        if (!at)
          continue;
        Group *of = groupOf.lookup(at);
        if (of == from || (direct && of == into) || stretches.start(place[at]) > last)
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

/// Whether the union is one loop nest: of one set of axes; or of more, where `from` is only used inside, and is cheap
/// or comes once a row.
bool BlockFusion::sharesLoops(Group *from, Group *into) {
  SmallVector<Axis> space(into->space);
  if (!unite(space, from->space))
    return false;
  if (space.size() == from->space.size() && space.size() == into->space.size())
    return true;
  if (!contains(into->space, from->space))
    return false;
  const bool outermost = contains(ArrayRef(into->space).take_front(from->space.size()), from->space);
  return llvm::none_of(
      from->ops, [&](Operation *op) { return isSum(op) || escapes(op, from, into) || (!outermost && !isCheap(op)); });
}

/// A sum is there only after the loops.
bool BlockFusion::readsSumOf(Group *reader, Group *of) {
  return llvm::any_of(of->ops, [&](Operation *op) {
    return isSum(op) &&
           llvm::any_of(op->getResult(0).getUsers(), [&](Operation *user) { return groupOf.lookup(user) == reader; });
  });
}

void BlockFusion::findNeededInTurns() {
  SmallVector<ech::RepeatOp> later;
  for (auto loop : block.getOps<ech::RepeatOp>())
    if (pipeline::isLaterInTurns(loop))
      later.push_back(loop);
  neededInTurns = pipeline::neededInTurns(later);
}

bool BlockFusion::join(Group *from, Group *into) {
  auto isInUpdate = [&](Group *group) { return place[group->ops.front()] > norm; };
  if (neededInTurns.contains(from->ops.front()) != neededInTurns.contains(into->ops.front()))
    return false; // what the first loop makes may be read by one of the two alone
  if (from == into || from->ops.size() + into->ops.size() > kLargestGroup || isInUpdate(from) != isInUpdate(into) ||
      from->ops[0]->getAttr(ech::kPhase) != into->ops[0]->getAttr(ech::kPhase) ||
      dist::placeOf(from->ops[0]) != dist::placeOf(into->ops[0]) || !sharesLoops(from, into) ||
      readsSumOf(into, from) || readsSumOf(from, into) || leadsOutside(from, into))
    return false;
  for (Operation *op : from->ops) {
    into->ops.push_back(op);
    groupOf[op] = into;
  }
  llvm::sort(into->ops, [&](Operation *a, Operation *b) { return place[a] < place[b]; });
  stretches.add(place[into->ops.front()], place[into->ops.back()]);
  unite(into->space, from->space);
  from->ops.clear();
  return true;
}
