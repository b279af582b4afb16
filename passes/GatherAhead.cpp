// rt-gather-ahead: the whole parameters of an iteration are gathered while the iteration before it computes.
//
// 1. In a loop of two iterations or more, the gathers of what is stored come into question, with what lays out their
//    messages: all that it takes lies in the state, and nothing in the loop writes that.
// 2. What they gather has two places, one for every other iteration. The gathers are started ahead of their iteration,
//    which waits for them as it begins, and then starts those of the next one.
//
//    gather(0)  | wait(0)  gather(1)  compute(0) | wait(1)  gather(2)  compute(1) | …
//
// So there are two iterations' whole parameters in memory, and one message's layout.
#include "ir/rt/Rt.h"
#include "ir/run/Run.h"
#include "mlir/IR/IRMapping.h"
#include "passes/Ahead.h"
#include "passes/Passes.h"
#include "passes/Phase.h"
#include "llvm/ADT/SetVector.h"

namespace echelon {
#define GEN_PASS_DEF_GATHERAHEAD
#include "passes/Passes.h.inc"
} // namespace echelon

using namespace mlir;
using namespace echelon;

namespace {
/// Fewer than may be under way on a group of ranks, which is prove::kRoom: others have room beside them.
constexpr size_t kMostAhead = 8;

/// A gather of a loop that can go ahead, with what comes before it.
class Gather {
public:
  /// Nothing: it takes something that the loop makes.
  static std::optional<Gather> of(rt::CollectiveOp collective, rt::ForOp loop);

  rt::CollectiveOp collective;
  SetVector<Operation *> before; ///< what lays out its message
  SetVector<Operation *> memory; ///< where that lies

private:
  explicit Gather(rt::CollectiveOp collective) : collective(collective) {}
  bool take(Value value, Block *body);
  bool takeWork(rt::AllocOp alloc, Block *body);
  bool takesWhatIsStored = false;
};

/// Whether a buffer, or number, is there ahead of the iteration; what makes it is taken along.
bool Gather::take(Value value, Block *body) {
  if (!isa<rt::Buffer>(value.getType())) {
    Operation *made = value.getDefiningOp();
    return !made || made->getBlock() != body || isa<rt::OffsetOp, rt::NumberOp>(made);
  }
  rt::AllocOp alloc = rt::allocOf(value);
  if (!alloc)
    return false;
  if (alloc.getArena() != rt::Arena::State)
    return alloc.getArena() == rt::Arena::Work && takeWork(alloc, body);
  takesWhatIsStored = true;
  return true;
}

bool Gather::takeWork(rt::AllocOp alloc, Block *body) {
  if (memory.contains(alloc))
    return true;
  if (alloc->getBlock() != body)
    return false;
  memory.insert(alloc);
  bool isOfMessage = true;
  rt::forEachUser(alloc.getBuffer(), [&](Operation *user) {
    if (user == collective || before.contains(user) || !isOfMessage)
      return;
    auto touches = dyn_cast<rt::Touches>(user);
    isOfMessage = touches && isa<rt::FusedOp, rt::CopyStridedOp>(user) && user->getBlock() == body &&
                  user->isBeforeInBlock(collective);
    if (!isOfMessage)
      return;
    before.insert(user);
    SmallVector<Value> values = touches.writes();
    llvm::append_range(values, user->getOperands());
    isOfMessage =
        llvm::all_of(values, [&](Value v) { return take(v, body); }) &&
        llvm::none_of(touches.writes(), [](Value v) { return rt::allocOf(v).getArena() == rt::Arena::State; });
  });
  return isOfMessage;
}

/// Whether the gather is the first that touches its result, which an iteration alone has.
bool isFirst(rt::CollectiveOp gather) {
  rt::AllocOp alloc = rt::allocOf(gather.getOut());
  bool isFirst = alloc && alloc.getArena() == rt::Arena::Work && alloc->getBlock() == gather->getBlock();
  if (isFirst)
    rt::forEachUser(alloc.getBuffer(), [&](Operation *user) {
      Operation *at = gather->getBlock()->findAncestorOpInBlock(*user);
      isFirst &= at == gather || gather->isBeforeInBlock(at);
    });
  return isFirst;
}

std::optional<Gather> Gather::of(rt::CollectiveOp collective, rt::ForOp loop) {
  if (collective.getKind() != "all_gather" || collective.isStarted() || !isFirst(collective))
    return std::nullopt;
  Gather gather(collective);
  if (!gather.take(collective.getIn(), &loop.getBody().front()) || !gather.takesWhatIsStored)
    return std::nullopt;
  return gather;
}

/// A loop whose gathers go ahead.
class Ahead {
public:
  Ahead(rt::ForOp loop, const Gather &first)
      : loop(loop), next(nextOf(loop, first.collective)), body(loop.getBody().front()), ahead(*loop.ahead()),
        inPhase(next), b(loop.getContext(), &inPhase) {
    b.setInsertionPoint(next);
    slot = rt::SlotOp::create(b, loop.getLoc(), b.getIndexType(), loop.position());
    b.setInsertionPointToStart(&ahead);
    slotAhead = rt::SlotOp::create(b, loop.getLoc(), b.getIndexType(), ahead.getArgument(0));
  }
  void add(const Gather &gather);

private:
  void giveTwoPlaces(rt::AllocOp alloc);
  void clone(Operation *op);
  Value tickets();

  rt::ForOp loop;
  rt::NextOp next;
  Block &body, &ahead;
  InPhaseOf inPhase;
  OpBuilder b;
  Value slot, slotAhead;
  IRMapping mapped; // of one gather: from an iteration to what is done ahead of it
};

/// One for each slot, in memory that is the loop's.
void Ahead::giveTwoPlaces(rt::AllocOp alloc) {
  rt::Buffer each = rt::buffer(alloc.getBuffer());
  SmallVector<ech::Axis> axes{{b.getStringAttr("slot"), 2}};
  llvm::append_range(axes, each.getAxes());
  b.setInsertionPoint(loop);
  auto both = rt::AllocOp::create(b, alloc.getLoc(), rt::Buffer::dense(axes, each.getElement()), alloc.getArenaAttr(),
                                  nullptr, nullptr);
  b.setInsertionPointAfter(slot.getDefiningOp());
  const int64_t count = each.count();
  auto place = [&](rt::Buffer type, Location loc, int64_t offset, ValueRange indices, ArrayRef<int64_t> factors) {
    SmallVector<Value> all{slot};
    llvm::append_range(all, indices);
    SmallVector<int64_t> times{count};
    llvm::append_range(times, factors);
    return rt::ViewOp::create(b, loc, type, both.getBuffer(), offset, all, times);
  };
  for (Operation *user : llvm::make_early_inc_range(alloc.getBuffer().getUsers()))
    if (auto view = dyn_cast<rt::ViewOp>(user)) {
      b.setInsertionPoint(view);
      view.getView().replaceAllUsesWith(place(rt::buffer(view.getView()), view.getLoc(), int64_t(view.getOffset()),
                                              view.getIndices(), view.getFactors()));
      view.erase();
    }
  if (!alloc.getBuffer().use_empty()) {
    b.setInsertionPoint(alloc);
    alloc.getBuffer().replaceAllUsesWith(place(each, alloc.getLoc(), 0, {}, {}));
  }
  alloc.erase();
}

/// Into what is done ahead, with the views and numbers that it takes.
void Ahead::clone(Operation *op) {
  for (Value operand : op->getOperands())
    if (Operation *made = operand.getDefiningOp(); made && made->getBlock() == &body && !mapped.contains(operand))
      clone(made);
  b.clone(*op, mapped);
}

Value Ahead::tickets() {
  OpBuilder::InsertionGuard guard(b);
  b.setInsertionPoint(loop);
  return rt::TicketsOp::create(b, loop.getLoc(), rt::TicketType::get(b.getContext()), 2);
}

void Ahead::add(const Gather &gather) {
  rt::CollectiveOp collective = gather.collective;
  for (Operation *alloc : gather.memory)
    alloc->moveBefore(loop);
  giveTwoPlaces(rt::allocOf(collective.getOut()));
  SmallVector<Operation *> before(gather.before.begin(), gather.before.end());
  llvm::sort(before, [](Operation *a, Operation *b) { return a->isBeforeInBlock(b); });
  mapped = IRMapping(); // what is erased below must not stay in it: its memory is used again
  mapped.map(loop.position(), ahead.getArgument(0));
  mapped.map(slot, slotAhead);
  b.setInsertionPointToEnd(&ahead);
  for (Operation *op : before)
    clone(op);
  clone(collective);
  auto started = cast<rt::CollectiveOp>(ahead.back());
  Value kept = tickets();
  started.getTicketsMutable().assign(kept);
  started.getPositionMutable().assign(slotAhead);
  b.setInsertionPoint(next);
  rt::WaitOp::create(b, collective.getLoc(), kept, slot);
  collective.erase();
  for (Operation *op : before)
    op->erase();
}

/// Views of the body that nothing reads any more.
void eraseUnused(Block &body) {
  for (Operation &op : llvm::make_early_inc_range(llvm::reverse(body)))
    if (isa<rt::ViewOp, rt::OffsetOp>(op) && op.use_empty())
      op.erase();
}

struct GatherAhead : echelon::impl::GatherAheadBase<GatherAhead> {
  void runOnOperation() override {
    auto policy = run::only<run::SyncOp>(getOperation());
    if (policy && policy.isLive())
      return;
    SmallVector<rt::ForOp> loops;
    getOperation().walk([&](rt::ForOp loop) {
      if (loop.getCount() > 1 && !loop.getTime() && isOfOnePhase(loop))
        loops.push_back(loop);
    });
    for (rt::ForOp loop : loops)
      goAhead(loop);
  }

  static void goAhead(rt::ForOp loop) {
    SmallVector<Gather> gathers;
    DenseMap<Attribute, size_t> onGroup;
    for (auto collective : loop.getBody().getOps<rt::CollectiveOp>())
      if (auto gather = Gather::of(collective, loop); gather && onGroup[collective.getMeshAttr()]++ < kMostAhead)
        gathers.push_back(*gather);
    if (gathers.empty() || writesState(loop))
      return;
    Ahead ahead(loop, gathers.front());
    for (const Gather &gather : gathers)
      ahead.add(gather);
    eraseUnused(loop.getBody().front());
  }

  static bool writesState(rt::ForOp loop) {
    return loop
        .walk([](rt::Touches op) {
          const bool writes = llvm::any_of(op.writes(), [](Value v) {
            rt::AllocOp alloc = rt::allocOf(v);
            return alloc && alloc.getArena() == rt::Arena::State;
          });
          return writes ? WalkResult::interrupt() : WalkResult::advance();
        })
        .wasInterrupted();
  }
};
} // namespace
