// How rules and sums of squares are put together.
//
// 1. A block is walked in its order. An operation goes to the last group of its kind: rules of one name with the same
//    numbers, or squares of one element type that go into one sum.
// 2. It is moved up to that group, never down. It must not touch what an operation on the way writes, nor write what
//    one reads. A collective counts until its rt.wait.
// 3. After the report of the norm the kernels of the update are guarded: nothing is moved across a report, nor across a
//    loop.
// 4. A group of one stays as it is.
#include "passes/cuda/GroupUpdates.h"
#include "ir/rt/Together.h"
#include "passes/Phase.h"

using namespace mlir;
using namespace echelon;

namespace {
/// What operations of one launch have in common; empty of those that have none.
struct Kind {
  StringRef what;            // of a rule its name
  SmallVector<Value> values; // numbers, or the sum
  Type element;              // of squares
  StringRef function;

  bool operator==(const Kind &other) const {
    return what == other.what && values == other.values && element == other.element && function == other.function;
  }
};

Kind kindOf(Operation &op) {
  if (auto call = dyn_cast<rt::InvokeOp>(op))
    return {call.getCallee(), call.getOperands().drop_front(rt::rowsOf(call).size()), Type(), rt::functionOf(&op)};
  if (auto squares = dyn_cast<rt::AddSquaresOp>(op); squares && squares.getParameter())
    return {squares->getName().getStringRef(),
            {squares.getSum()},
            rt::buffer(squares.getX()).getElement(),
            rt::functionOf(&op)};
  return {};
}

bool overlapAny(ArrayRef<Value> some, ArrayRef<Value> others) {
  return llvm::any_of(some, [&](Value a) { return llvm::any_of(others, [&](Value b) { return rt::overlap(a, b); }); });
}

/// Whether what touches memory as `moved` does may come before `other`.
bool mayPass(rt::Touches moved, Operation &other) {
  if (rt::isDeclaration(other) || isa<rt::ProgressOp, rt::TicketsOp>(other))
    return true;
  auto isLeftAlone = [&](rt::Touches by) {
    return !overlapAny(moved.writes(), by.writes()) && !overlapAny(moved.writes(), by.reads()) &&
           !overlapAny(moved.reads(), by.writes());
  };
  if (auto wait = dyn_cast<rt::WaitOp>(other)) {
    auto started = wait.getTicket().getDefiningOp<rt::CollectiveOp>();
    return started && isLeftAlone(started);
  }
  auto touches = dyn_cast<rt::Touches>(other);
  return touches && !isa<rt::ReportOp>(other) && isLeftAlone(touches);
}

struct Group {
  Kind kind;
  SmallVector<Operation *> members;

  /// Whether an operation may go to where the first one is. Squares are added to their sum in their order.
  bool mayTake(Operation &op) const {
    for (Operation *on = members.front(); on != &op; on = on->getNextNode())
      if (!(isa<rt::AddSquaresOp>(op) && llvm::is_contained(members, on)) && !mayPass(cast<rt::Touches>(op), *on))
        return false;
    return true;
  }
};

/// What says what a value is goes before an operation, too.
void declareBefore(Value value, Operation *op) {
  Operation *made = value.getDefiningOp();
  if (!made || made->getBlock() != op->getBlock() || made->isBeforeInBlock(op))
    return;
  for (Value operand : made->getOperands())
    declareBefore(operand, op);
  made->moveBefore(op);
}

void putTogether(const Group &group) {
  Operation *first = group.members.front();
  OpBuilder b(first);
  auto together = rt::TogetherOp::create(b, first->getLoc());
  copyPhase(first, together);
  if (Attribute function = first->getAttr(rt::kFunction))
    together->setAttr(rt::kFunction, function);
  Block &body = together.getBody().emplaceBlock();
  for (Operation *member : group.members) {
    for (Value operand : member->getOperands())
      declareBefore(operand, together);
    member->moveBefore(&body, body.end());
  }
}

void groupIn(Block &block) {
  std::vector<Group> groups;
  for (Operation &op : block) {
    if (auto loop = dyn_cast<rt::ForOp>(op))
      groupIn(loop.getBody().front());
    if (auto at = dyn_cast<rt::AtOp>(op))
      groupIn(at.getBody().front());
    Kind kind = kindOf(op);
    if (kind.what.empty())
      continue;
    auto last = llvm::find_if(llvm::reverse(groups), [&](const Group &group) { return group.kind == kind; });
    if (last != groups.rend() && last->mayTake(op))
      last->members.push_back(&op);
    else
      groups.push_back({kind, {&op}});
  }
  for (const Group &group : groups)
    if (group.members.size() > 1)
      putTogether(group);
}
} // namespace

void echelon::groupUpdates(rt::FunctionOp function) { groupIn(function.getBody().front()); }
