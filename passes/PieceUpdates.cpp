#include "passes/PieceUpdates.h"
#include "ir/rt/Offload.h"
#include "mlir/IR/IRMapping.h"
#include "passes/Ahead.h"
#include "passes/Phase.h"
#include "llvm/ADT/MapVector.h"

using namespace mlir;
using namespace echelon;

namespace {
constexpr int64_t kPage = 4096; // what is smaller goes with what lies beside it

/// The loop, not over time, at whose position a view is, and which has nothing else to do with its place; null: none.
rt::ForOp loopOf(rt::ViewOp view) {
  rt::ForOp at;
  for (Value index : view.getIndices())
    if (auto position = dyn_cast<BlockArgument>(index))
      if (auto loop = dyn_cast<rt::ForOp>(position.getOwner()->getParentOp()); loop && !loop.getTime())
        at = loop;
  auto isOutside = [&](Value index) { return isa<BlockArgument>(index) || !at->isAncestor(index.getDefiningOp()); };
  return at && llvm::all_of(view.getIndices(), isOutside) ? at : rt::ForOp();
}

/// Whether a rule has rows of a buffer; it is told of them.
bool takesRows(rt::InvokeOp call, rt::AllocOp of) {
  auto known = call->getAttrOfType<DenseI64ArrayAttr>(rt::kOffloadedRows);
  SmallVector<int64_t> rows(known ? known.asArrayRef() : ArrayRef<int64_t>());
  bool hasSuch = false;
  for (auto [i, operand] : llvm::enumerate(call.getOperands())) {
    if (!isa<rt::Buffer>(operand.getType()) || rt::allocOf(operand) != of ||
        rt::buffer(operand).count() != static_cast<int64_t>(call.getCount()))
      continue;
    hasSuch = true;
    if (!llvm::is_contained(rows, static_cast<int64_t>(i)))
      rows.push_back(static_cast<int64_t>(i));
  }
  llvm::sort(rows);
  if (hasSuch)
    call->setAttr(rt::kOffloadedRows, DenseI64ArrayAttr::get(call.getContext(), rows));
  return hasSuch;
}

/// What the iterations of a loop read of buffers that are offloaded.
using Slices = llvm::MapVector<Operation *, SmallVector<rt::ViewOp>>;

/// An iteration's part of a buffer is read in time, and let go: the loop's. One that is small is left.
bool isSlice(rt::ViewOp view) {
  rt::ForOp loop = loopOf(view);
  return loop && isOfOnePhase(loop) && rt::buffer(view).isDense();
}

void piece(rt::AllocOp alloc, bool isStaged, Slices &slices) {
  Operation *last = nullptr, *lastUser = nullptr; // that has the whole in memory
  auto touch = [&](Operation *user) {
    auto call = dyn_cast<rt::InvokeOp>(user);
    if ((call && takesRows(call, alloc)) || isa<rt::FetchOp, rt::WriteBackOp>(user))
      return;
    Operation *at = alloc->getBlock()->findAncestorOpInBlock(*user);
    if (!last || last->isBeforeInBlock(at)) {
      last = at;
      lastUser = user;
    }
  };
  for (Operation *user : alloc.getBuffer().getUsers()) {
    auto view = dyn_cast<rt::ViewOp>(user);
    if (!view)
      touch(user);
    else if (!isSlice(view))
      rt::forEachUser(view.getView(), touch);
    else if (rt::buffer(view).bytes() >= kPage && !view->use_empty())
      slices[loopOf(view)].push_back(view);
  }
  if (!last)
    return;
  if (isStaged)
    llvm::report_fatal_error("an operation of a GPU touches what is offloaded where it lies");
  OpBuilder b(alloc.getContext());
  if (auto at = dyn_cast<rt::AtOp>(last)) // of a stage alone
    b.setInsertionPointToEnd(&at.getBody().front());
  else
    b.setInsertionPointAfter(last);
  copyPhase(lastUser, rt::LetGoOp::create(b, last->getLoc(), alloc.getBuffer()));
}

/// The loop reads ahead what its iterations are to read, and lets it go behind the last operation of an iteration that
/// takes it; what is gathered ahead, once that is waited for.
class Reader {
public:
  Reader(rt::ForOp loop, rt::ViewOp first)
      : loop(loop), next(nextOf(loop, *first->getUsers().begin())), inPhase(next), b(loop.getContext(), &inPhase) {}
  void read(rt::ViewOp view);

private:
  /// The same part of the buffer in another block of the loop.
  Value seenIn(Block &block, rt::ViewOp view);

  rt::ForOp loop;
  rt::NextOp next;
  InPhaseOf inPhase;
  OpBuilder b;
  SmallVector<rt::ViewOp> known;
};

Value Reader::seenIn(Block &block, rt::ViewOp view) {
  if (view->getBlock() == &block)
    return view.getView();
  IRMapping mapped;
  mapped.map(loop.position(), loop.ahead()->getArgument(0));
  mapped.map(loop.ahead()->getArgument(0), loop.position());
  return b.clone(*view, mapped)->getResult(0);
}

void Reader::read(rt::ViewOp view) {
  Block &body = loop.getBody().front(), &ahead = *loop.ahead();
  const bool isAhead = view->getBlock() == &ahead;
  const bool isKnown = llvm::any_of(known, [&](rt::ViewOp other) { // with other axes
    return other->getBlock() == view->getBlock() && other.getBase() == view.getBase() &&
           other.getOffset() == view.getOffset() && llvm::equal(other.getIndices(), view.getIndices());
  });
  Operation *last = next;
  rt::forEachUser(view.getView(), [&](Operation *user) {
    Operation *at = isAhead ? nullptr : body.findAncestorOpInBlock(*user);
    if (at && last->isBeforeInBlock(at))
      last = at;
  });
  if (isKnown)
    return;
  known.push_back(view);
  if (isAhead)
    b.setInsertionPointAfter(view);
  else
    b.setInsertionPointToEnd(&ahead);
  rt::WillNeedOp::create(b, view.getLoc(), seenIn(ahead, view));
  b.setInsertionPointAfter(last);
  rt::LetGoOp::create(b, last->getLoc(), seenIn(body, view));
}
} // namespace

void echelon::pieceUpdates(ModuleOp module) {
  auto offloaded = module->getAttrOfType<DenseI64ArrayAttr>(rt::kOffloaded);
  if (!offloaded)
    return;
  const bool isStaged = module->hasAttr(rt::kStaged); // a device has none of it else
  SmallVector<rt::AllocOp> buffers;
  for (auto step : module.getOps<rt::FunctionOp>())
    step.walk([&](rt::AllocOp alloc) {
      if (alloc.getArena() == rt::Arena::State && static_cast<int64_t>(*alloc.getOffset()) >= offloaded[0] &&
          (isStaged || rt::buffer(alloc).bytes() >= kPage))
        buffers.push_back(alloc);
    });
  Slices slices;
  for (rt::AllocOp alloc : buffers)
    piece(alloc, isStaged, slices);
  for (auto &[loop, views] : slices) {
    Reader reader(cast<rt::ForOp>(loop), views.front());
    for (rt::ViewOp view : views)
      reader.read(view);
  }
}
