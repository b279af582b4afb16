// The turns of a pipeline's stages, what one stage does alone, and what goes from one to the next.
#include "passes/pipeline/Turns.h"
#include "ir/ech/Neutral.h"
#include "passes/Phase.h"
#include "passes/lower/Repeats.h"

using namespace mlir;
using namespace echelon;
using namespace echelon::lower;

Lowering::Chunks echelon::lower::chunksOf(Lowering &l, DictionaryAttr turns) {
  const int m = l.mesh.index(turns.getAs<StringAttr>("over").getValue());
  const ArrayAttr axes = l.mesh.getAxes()[m].list;
  const int64_t count = l.mesh.mapOf(m, cast<StringAttr>(axes[0])).chunks;
  return count > 1 ? Lowering::Chunks{axes, count, turns.getAs<IntegerAttr>("buffers").getInt(), {}, {}}
                   : Lowering::Chunks();
}
rt::AtOp echelon::lower::atPlaces(Lowering &l, Operation *op, StringRef over, int64_t first, int64_t last) {
  const int64_t m = l.mesh.index(over), stages = l.mesh.sizeOf(m), end = stages * l.chunks.count - 1;
  const bool isOne = first == last, isAllButOne = !isOne && (first == 0) != (last == end) && last - first == end - 1;
  const int64_t place = isAllButOne ? (first == 0 ? end : 0) : first;
  Value turn = l.chunks.turn;
  auto at = rt::AtOp::create(l.b, op->getLoc(), place % stages, m, over, isAllButOne, turn,
                             turn ? l.b.getI64IntegerAttr(place / stages) : IntegerAttr(),
                             isOne || isAllButOne ? IntegerAttr() : l.b.getI64IntegerAttr(last));
  at.getBody().emplaceBlock();
  return at;
}

void echelon::lower::copyAtPlaces(Lowering &l, Operation *op, StringRef over, int64_t first, int64_t last, Value to,
                                  Value from, bool adds) {
  const int64_t places = l.mesh.sizeOf(l.mesh.index(over)) * l.chunks.count;
  if (first == 0 && last == places - 1)
    return l.copy(to, from, op->getLoc(), adds);
  OpBuilder::InsertionGuard guard(l.b);
  rt::AtOp at = atPlaces(l, op, over, first, last);
  l.b.setInsertionPointToStart(&at.getBody().front());
  l.copy(to, from, op->getLoc(), adds);
  for (Operation &made : at.getBody().front())
    copyPhase(op, &made);
  if (at.getBody().front().empty())
    at.erase();
}

namespace {
/// The axis of the buffers in which turns leave what they send.
constexpr StringLiteral kBuffer = "@buffer";
/// What is under way when all turns are over is waited for.
void waitBehind(Lowering &l, Value tickets) {
  OpBuilder behind(l.turns->getContext());
  behind.setInsertionPointAfter(l.turns);
  setPhase(rt::WaitOp::create(behind, tickets.getLoc(), tickets), "update");
}

/// A message that is under way from one turn to the next is waited for before the next one of its kind is made, and
/// when all turns are over.
void waitForSends(Lowering &l, Block &region) {
  for (Value tickets : l.sends) {
    OpBuilder begin = OpBuilder::atBlockBegin(&region);
    copyPhase(tickets.getDefiningOp(), rt::WaitOp::create(begin, tickets.getLoc(), tickets));
    waitBehind(l, tickets);
  }
  l.sends.clear();
}

/// The later loops of a pass through stages.
SmallVector<ech::RepeatOp> laterLoops(ech::RepeatOp loop) {
  SmallVector<ech::RepeatOp> later;
  for (Operation *next = loop->getNextNode(); next; next = next->getNextNode()) {
    if (pipeline::isLaterInTurns(next))
      later.push_back(cast<ech::RepeatOp>(next));
    else if (next->hasAttr(dist::kTurns))
      break; // of the next pass
  }
  return later;
}

/// What the later loops of a pipeline read comes before the first one: they all run in its turns.
LogicalResult lowerForLater(Lowering &l, ech::RepeatOp first, ArrayRef<ech::RepeatOp> later) {
  SmallVector<Operation *> order = pipeline::neededInTurns(later).takeVector();
  llvm::erase_if(order, [&](Operation *op) { return op->isBeforeInBlock(first); });
  llvm::sort(order, [](Operation *a, Operation *b) { return a->isBeforeInBlock(b); });
  for (Operation *op : order) {
    auto reads = [&](ech::RepeatOp loop) {
      return llvm::any_of(loop->getUsers(), [&](Operation *user) { return op->isAncestor(user); });
    };
    if (reads(first) || llvm::any_of(later, reads))
      return op->emitError("internal error, please report: a pipeline's backward pass needs this, which needs all of "
                           "its forward pass");
    op->moveBefore(first);
    if (failed(l.lower(op)))
      return failure();
  }
  return success();
}

/// The rt.stages whose first region is the loop.
rt::StagesOp makeStages(Lowering &l, ech::RepeatOp op, DictionaryAttr turns, int64_t micro, int64_t parts) {
  const StringRef over = turns.getAs<StringAttr>("over").getValue();
  return rt::StagesOp::create(l.b, op.getLoc(), op.getAxis(), micro, turns.getAs<StringAttr>("schedule").getValue(),
                              l.mesh.index(over), over, turns.getAs<IntegerAttr>("slots").getInt(),
                              chunksOf(l, turns).count, parts);
}

/// What a loop does in its turns; `position`: of the micro batch.
LogicalResult lowerTurn(Lowering &l, ech::RepeatOp op, DictionaryAttr turns, Places &places, Block &turn,
                        Value position) {
  if (turn.getNumArguments() > 2) {
    l.chunks = chunksOf(l, turns);
    l.chunks.turn = turn.getArgument(2);
    l.chunks.buffer = turn.getArgument(3);
  }
  const LogicalResult lowered = lowerIterations(l, op, places, turn, position, turn.getArgument(1));
  if (succeeded(lowered))
    waitForSends(l, turn);
  l.chunks = {};
  return lowered;
}

/// The loops of a pipeline, one after the other: the regions of one rt.stages.
LogicalResult lowerTurns(Lowering &l, ech::RepeatOp op, DictionaryAttr turns) {
  OpBuilder::InsertionGuard guard(l.b);
  const StringRef part = turns.getAs<StringAttr>("part").getValue();
  const SmallVector<ech::RepeatOp> later = laterLoops(op);
  Places places;
  if (part != "forward")
    l.b.setInsertionPoint(l.turns);
  else if (failed(lowerForLater(l, op, later)))
    return failure();
  placeResults(l, op, places);
  if (part == "forward")
    l.turns = makeStages(l, op, turns, static_cast<int64_t>(op.getCount()), int64_t(later.size()) + 1);
  Block &turn = (part == "forward"    ? l.turns.getForward()
                 : part == "backward" ? l.turns.getBackward()
                                      : l.turns.getWeights())
                    .front();
  const LogicalResult lowered = lowerTurn(l, op, turns, places, turn, turn.getArgument(0));
  if (later.empty())
    l.turns = {};
  return lowered;
}

/// A loop that runs until data end takes the turns of one micro batch after the other: nothing else is to be done while
/// a message is under way.
LogicalResult lowerOpenTurns(Lowering &l, ech::RepeatOp op, DictionaryAttr turns) {
  OpBuilder::InsertionGuard guard(l.b);
  Places places;
  placeResults(l, op, places);
  auto loop = rt::ForOp::create(l.b, op.getLoc(), op.getAxis(), op.getCount(), op.getReverse(), op.getTime());
  l.b.setInsertionPointToStart(&loop.getBody().front());
  auto stages = makeStages(l, op, turns, /*micro=*/1, /*parts=*/1);
  return lowerTurn(l, op, turns, places, stages.getForward().front(), loop.position());
}
/// Of what a maximum or minimum is found of: what changes none.
std::optional<double> neutralOf(Value x) {
  for (OpOperand &use : x.getUses()) {
    auto map = dyn_cast<ech::MapOp>(use.getOwner());
    if (map && map.getFunction() == ech::Function::Max)
      return ech::neutralOf(ech::Reduction::Max, ech::tensor(x).isFloat());
    if (map && map.getFunction() == ech::Function::Min)
      return ech::neutralOf(ech::Reduction::Min, ech::tensor(x).isFloat());
    if (auto nest = dyn_cast<rt::GroupOp>(use.getOwner()))
      return neutralOf(nest.getBody().front().getArgument(use.getOperandNumber()));
  }
  return std::nullopt;
}

/// A result lies where it is wanted, or in a place of its own, on all ranks: others read there what a dist.receive
/// brings, or nothing. What is a share of a sum, elsewhere nothing, and not added up where it is made, is 0 there; of a
/// maximum or minimum it is what changes none.
LogicalResult lowerAt(Lowering &l, dist::AtOp op) {
  const int m = l.mesh.index(op.getOver());
  dist::YieldOp yield = op.yield();
  SmallVector<Destination> places;
  for (auto [value, result] : llvm::zip(yield.getValues(), op.getResults())) {
    places.push_back(l.target(result));
    const dist::Hold hold = dist::stateOf(result)[m].hold;
    const bool isShare = hold != dist::stateOf(value)[m].hold && (hold == dist::Hold::Sum || hold == dist::Hold::Own);
    if (!isShare || places.back().adds)
      continue;
    const std::optional<double> nothing = hold == dist::Hold::Own ? neutralOf(result) : 0.0;
    if (!nothing)
      return l.refuse(op, "has a share of what is no maximum or minimum");
    l.fill(places.back().buffer, *nothing, op.getLoc());
  }
  const auto stage = int64_t(op.getPlace());
  rt::AtOp at = atPlaces(l, op, op.getOver(), stage, stage);
  OpBuilder::InsertionGuard guard(l.b);
  l.b.setInsertionPointToStart(&at.getBody().front());
  for (auto [i, place] : llvm::enumerate(places))
    l.destinations[&yield->getOpOperand(i)] = place;
  l.reserveMessages(*op.block());
  for (Operation &inner : op.block()->without_terminator())
    if (failed(l.lower(&inner)))
      return failure();
  for (auto [value, place] : llvm::zip(yield.getValues(), places))
    if (!(l.added.contains(value) && l.buffers.lookup(value) == place.buffer))
      l.copy(place.buffer, l.read(value), value.getLoc(), place.adds);
  for (Operation &made : at.getBody().front())
    if (!made.hasAttr(ech::kPhase))
      copyPhase(op, &made);
  forgetFree(l, at.getBody().front(), op.getBody());
  return success();
}

/// Done at all places of the message but those that have no such neighbor.
template <typename Message, typename Op, typename... More>
Message toNeighbor(Lowering &l, Op op, Value buffer, StringRef toward, More... more) {
  const int64_t m = l.mesh.index(op.getOver()), first = int64_t(op.getFirst()), last = int64_t(op.getLast());
  const bool isNext = toward == "next";
  rt::AtOp at = atPlaces(l, op, op.getOver(), isNext ? first : first + 1, isNext ? last - 1 : last);
  OpBuilder inside = OpBuilder::atBlockBegin(&at.getBody().front());
  auto message = Message::create(inside, op->getLoc(), buffer, isNext ? 1 : -1, ArrayRef<int64_t>(m), l.mesh.sizeOf(m),
                                 op.getOver(), op.getWhy(), /*around=*/bool(l.chunks.turn), more...);
  copyPhase(op, message);
  return message;
}

LogicalResult lowerReceive(Lowering &l, dist::ReceiveOp op) {
  Value own = op.getValue(), place, from = l.read(own);
  const bool isFromStage = own.hasOneUse() && own.getDefiningOp<dist::AtOp>();
  if (isFromStage) { // it has a place of its own, for whatever comes
    place = from;
    l.buffers.erase(own);
    l.bind(op.getResult(), place);
  } else {
    place = l.result(op.getResult());
    const auto begin = int64_t(op.getFrom() == "previous" ? op.getFirst() : op.getLast());
    copyAtPlaces(l, op, op.getOver(), begin, begin, place, from);
  }
  toNeighbor<rt::ReceiveOp>(l, op, place, op.getFrom());
  return success();
}

LogicalResult lowerSend(Lowering &l, dist::SendOp op) {
  Value buffer = l.read(op.getValue());
  const int64_t buffers = l.chunks.axes ? l.chunks.buffers : 1;
  if (!rt::buffer(buffer).isDense()) {
    Value dense = l.alloc(l.bufferType(op.getValue()), op.getLoc());
    copyAtPlaces(l, op, op.getOver(), int64_t(op.getFirst()), int64_t(op.getLast()), dense, buffer);
    buffer = dense;
  }
  if (!l.turns) {
    toNeighbor<rt::SendOp>(l, op, buffer, op.getTo(), Value(), Value());
    return success();
  }
  // it goes on while the stage does something else, and what it takes stays until then
  OpBuilder before(l.turns);
  Value tickets = rt::TicketsOp::create(before, op.getLoc(), rt::TicketType::get(l.b.getContext()), buffers);
  copyPhase(op, tickets.getDefiningOp());
  if (buffers == 1) {
    l.sends.push_back(tickets);
    if (auto alloc = rt::allocOf(buffer); alloc && l.turns->isAncestor(alloc))
      alloc->moveBefore(l.turns);
    toNeighbor<rt::SendOp>(l, op, buffer, op.getTo(), tickets, Value());
    return success();
  }
  // More than one is under way: it goes from several buffers in turn.
  SmallVector<Axis> axes(rt::buffer(buffer).getAxes());
  axes.insert(axes.begin(), {l.b.getStringAttr(kBuffer), buffers});
  OpBuilder::InsertionGuard guard(l.b);
  const auto here = l.b.saveInsertionPoint();
  l.b.setInsertionPoint(l.turns);
  Value all = l.alloc(axes, rt::buffer(buffer).getElement(), op.getLoc());
  l.b.restoreInsertionPoint(here);
  Value own = l.slice(all, kBuffer, 0, op.getLoc(), l.chunks.buffer);
  auto send = toNeighbor<rt::SendOp>(l, op, own, op.getTo(), tickets, l.chunks.buffer);
  l.b.setInsertionPoint(send);
  rt::WaitOp::create(l.b, op.getLoc(), tickets, l.chunks.buffer);
  l.copy(own, buffer, op.getLoc());
  for (Operation &made : *send->getBlock())
    if (!made.hasAttr(ech::kPhase))
      copyPhase(op, &made);
  waitBehind(l, tickets);
  return success();
}
} // namespace

LogicalResult echelon::lower::lowerInTurns(Lowering &l, ech::RepeatOp op, DictionaryAttr turns) {
  return op.getCount() == 0 ? lowerOpenTurns(l, op, turns) : lowerTurns(l, op, turns);
}

void echelon::lower::addTurns(Lowering &l) {
  l.add<dist::AtOp>(lowerAt);
  l.add<dist::ReceiveOp>(lowerReceive);
  l.add<dist::SendOp>(lowerSend);
}
