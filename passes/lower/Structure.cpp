// Steps, reads and writes, repeats, reports.
#include "passes/Phase.h"
#include "passes/lower/Lowering.h"
#include "llvm/ADT/SetVector.h"

using namespace mlir;
using namespace echelon;
using namespace echelon::lower;

namespace {
NameLoc storedName(Lowering &l, StringRef path, Location loc) {
  return NameLoc::get(l.b.getStringAttr(shortName(path)), loc);
}

LogicalResult lowerRead(Lowering &l, ech::ReadOp op) {
  if (op.getSource() == ech::kValidSamples)
    return success(); // free: loop nests ask how many samples are valid
  bool input = isa<ech::InputOp>(l.symbols.lookup(op.getSource()));
  // an input may be wanted in several states: it then has as many places
  std::string key = op.getSource().str();
  if (input) {
    llvm::raw_string_ostream os(key);
    os << " " << op.getValue().getType() << op->getAttr(ech::kReadFrom) << op->getAttr(ech::kReadTo);
  }
  Value &known = l.stored[key];
  if (!known) {
    OpBuilder::InsertionGuard guard(l.b);
    l.b.setInsertionPointToStart(&l.function.getBody().front());
    auto arena = rt::ArenaAttr::get(l.b.getContext(), input ? rt::Arena::Input : rt::Arena::State);
    auto alloc = rt::AllocOp::create(l.b, storedName(l, op.getSource(), op.getLoc()), l.bufferType(op.getValue()),
                                     arena, op.getSourceAttr(), nullptr);
    if (input) {
      NamedAttrList read;
      read.set("type", TypeAttr::get(op.getValue().getType()));
      if (Attribute from = op->getAttr(ech::kReadFrom)) {
        read.set("from", from);
        read.set("to", op->getAttr(ech::kReadTo));
      }
      alloc->setAttr(rt::kRead, read.getDictionary(l.b.getContext()));
    }
    known = alloc;
  }
  l.bind(op.getValue(), known);
  return success();
}

/// The buffer of a variable that is written and perhaps not read.
Value variable(Lowering &l, ech::WriteOp op) {
  Value &known = l.stored[op.getTarget()];
  if (!known) {
    OpBuilder::InsertionGuard guard(l.b);
    l.b.setInsertionPointToStart(&l.function.getBody().front());
    auto state = rt::ArenaAttr::get(l.b.getContext(), rt::Arena::State);
    known = rt::AllocOp::create(l.b, storedName(l, op.getTarget(), op.getLoc()), l.bufferType(op.getValue()), state,
                                op.getTargetAttr(), nullptr);
  }
  return known;
}

LogicalResult lowerStep(Lowering &l, ech::StepOp op) {
  Block &block = *op.getBody().begin();
  // variables first, so that what becomes their next value can be computed in place
  for (Operation &inner : block) {
    if (auto read = dyn_cast<ech::ReadOp>(inner)) {
      if (failed(lowerRead(l, read)))
        return failure();
      l.reads[read.getSource()].push_back(read.getValue());
    }
    if (auto write = dyn_cast<ech::WriteOp>(inner))
      variable(l, write);
  }
  l.reserveMessages(block);
  const bool exchanges = llvm::is_contained({"exchange", "restore", "train.start", "read"}, op.getSymName());
  SmallVector<std::pair<ech::WriteOp, Value>> late;
  auto isRead = [&](StringRef target, Operation &write) { // after this write
    Operation *next = write.getNextNode();
    return next && !llvm::all_of(l.reads[target], [&](Value read) { return l.isFreeAt(read, next, Value()); });
  };
  for (Operation &inner : block) {
    auto write = dyn_cast<ech::WriteOp>(inner);
    if (!write) {
      if (failed(l.lower(&inner)))
        return failure();
      continue;
    }
    Value target = l.stored[write.getTarget()], source = l.read(write.getValue());
    if (source == target)
      continue;
    // a value that is (part of) another variable's memory is taken before that changes: to where it goes, if that is
    // free
    if (auto alloc = rt::allocOf(source); alloc && alloc.getArena() != rt::Arena::Work) {
      if (exchanges && !isRead(write.getTarget(), inner)) {
        l.copy(target, source, write.getLoc());
        for (; !late.empty() && !isRead(late.back().first.getTarget(), inner); late.pop_back())
          l.copy(l.stored[late.back().first.getTarget()], late.back().second, late.back().first.getLoc());
        continue;
      }
      Value taken = l.alloc(rt::buffer(source), write.getLoc());
      l.copy(taken, source, write.getLoc());
      source = taken;
    }
    late.push_back({write, source});
  }
  for (auto [write, source] : late) {
    l.copy(l.stored[write.getTarget()], source, write.getLoc());
    auto phase = l.waitsForCheck(write) ? l.b.getStringAttr("update") : write->getAttr(ech::kPhase);
    if (phase)
      l.b.getInsertionBlock()->back().setAttr(ech::kPhase, phase);
  }
  return success();
}

LogicalResult lowerReport(Lowering &l, ech::ReportOp op) {
  Value value = l.read(op.getValue());
  auto destinations = l.module->getAttrOfType<ArrayAttr>(rt::kScalars);
  SmallVector<Attribute> list;
  if (destinations)
    llvm::append_range(list, destinations);
  Attribute key = l.b.getStrArrayAttr({stringifyReportKind(op.getKind()), op.getName()});
  auto at = llvm::find(list, key);
  int64_t destination = at - list.begin();
  if (at == list.end()) {
    list.push_back(key);
    l.module->setAttr(rt::kScalars, l.b.getArrayAttr(list));
  }
  rt::ReportOp::create(l.b, op.getLoc(), l.b.getI64IntegerAttr(destination),
                       l.b.getStringAttr(stringifyReportKind(op.getKind())), op.getNameAttr(), value);
  return success();
}

/// How many of a repeat's iterations a rank does in a row: of those that stages of a pipeline divide, its own, or those
/// of a turn.
int64_t ownCount(Lowering &l, ech::RepeatOp op) {
  const int stages = dist::stagesOf(l.mesh, op.getAxis());
  const int64_t chunks = l.chunks.axis == op.getAxisAttr() ? l.chunks.count : 1;
  return static_cast<int64_t>(op.getCount()) / (stages < 0 ? 1 : l.mesh.sizeOf(stages) * chunks);
}

/// The position of an iteration among all, of one among the rank's own.
Value positionInAll(Lowering &l, ech::RepeatOp op, Value position) {
  const int stages = dist::stagesOf(l.mesh, op.getAxis());
  if (stages < 0)
    return position;
  const int64_t count = ownCount(l, op);
  auto size = rt::SizeAttr::get(l.b.getContext(), Axis{op.getAxisAttr(), count});
  auto name = NameLoc::get(l.b.getStringAttr("at_" + op.getAxis()), op.getLoc());
  Value turn = l.chunks.axis == op.getAxisAttr() ? l.chunks.turn : Value();
  return rt::OffsetOp::create(l.b, name, l.b.getIndexType(), l.list(stages), l.list(count), l.b.getI64IntegerAttr(0),
                              size, DenseI64ArrayAttr(), DenseI64ArrayAttr(), position, turn,
                              turn ? l.b.getI64IntegerAttr(count * l.mesh.sizeOf(stages)) : IntegerAttr());
}

/// The chunks of iterations that the turns of a pipeline do.
Lowering::Chunks chunksOf(Lowering &l, DictionaryAttr turns) {
  const int m = l.mesh.index(turns.getAs<StringAttr>("over").getValue());
  const auto axis = cast<StringAttr>(l.mesh.getAxes()[m].list[0]);
  const int64_t count = l.mesh.mapOf(m, axis).chunks;
  return count > 1 ? Lowering::Chunks{axis, count, turns.getAs<IntegerAttr>("buffers").getInt(), {}, {}}
                   : Lowering::Chunks();
}

/// The axis of memory in which a stage keeps what it needs of a micro batch again.
constexpr StringLiteral kSlot = "@slot"; // no axis of a model is called so
/// The axis of the buffers in which turns leave what they send.
constexpr StringLiteral kBuffer = "@buffer";

/// Where a repeat's results go, and with it the values that its body yields.
struct Places {
  SmallVector<Value> lists;              // of carried values: listOfCarried
  SmallVector<Value> carried, next;      // where a carried value comes into an iteration, and where it goes
  SmallVector<Destination> stacks, sums; // no buffer: a part of a list
};

/// Whether `start` alone lies in `first`, and was computed there.
bool isOwnMemory(Lowering &l, ech::RepeatOp op, Value start, Value first) {
  Operation *producer = start.getDefiningOp();
  return producer && rt::buffer(first).isDense() && first.getDefiningOp<rt::AllocOp>() &&
         rt::allocOf(first).getArena() == rt::Arena::Work && producer->getBlock() == op->getBlock() &&
         llvm::count_if(l.buffers, [&](auto &entry) { return entry.second == first; }) == 1;
}

/// A carried value that the loop stacks as it comes in lies in that list, which is one place longer than the loop: what
/// an iteration makes is written where the next one finds it, after the last one lies the final value, and the list of
/// what the iterations leave is the same one, a place further on. So nothing is copied or kept twice. Null where the
/// value is not stacked so, or the list is wanted in a place that exists already.
Value listOfCarried(Lowering &l, ech::RepeatOp op, unsigned i) {
  if (op.getReverse() || op.getTime() || l.hasDestination(op.getFinals()[i]))
    return {};
  for (auto [v, stack] : llvm::zip(op.yield().getStacked(), op.getStacks())) {
    if (v != op.carriedArguments()[i] || l.hasDestination(stack))
      continue;
    Buffer shape = l.bufferType(stack);
    SmallVector<Axis> axes(shape.getAxes());
    if (axes.front().name != op.getAxisAttr())
      return {};
    ++axes.front().size;
    Value start = op.getCarried()[i], first = l.read(start);
    const bool own = isOwnMemory(l, op, start, first) &&
                     rt::buffer(first) == Buffer::dense(shape.getAxes().drop_front(), shape.getElement());
    OpBuilder::InsertionGuard guard(l.b);
    if (own) // where the memory that it takes the place of is made
      l.b.setInsertionPoint(first.getDefiningOp());
    Value list = l.alloc(axes, shape.getElement(), stack.getLoc());
    Value begin = l.slice(list, op.getAxis(), 0, stack.getLoc());
    if (!own) {
      l.copy(begin, first, op.getLoc());
      return list;
    }
    for (Value made : {list, begin})
      copyPhase(first.getDefiningOp(), made.getDefiningOp());
    l.bind(start, begin);
    first.replaceAllUsesWith(begin);
    first.getDefiningOp()->erase();
    return list;
  }
  return {};
}

/// The buffer in which carried value i lives: where its last value is wanted; else where its first one lies, if nobody
/// else wants that; else a new one.
Value carriedPlace(Lowering &l, ech::RepeatOp op, unsigned i) {
  Value start = op.getCarried()[i];
  Value first = l.read(start);
  if (start.hasOneUse() && isOwnMemory(l, op, start, first))
    return first;
  Value place = l.result(op.getFinals()[i]);
  l.copy(place, first, op.getLoc());
  return place;
}

LogicalResult lowerYield(Lowering &l, ech::RepeatOp op, Places &places, Value position) {
  ech::YieldOp yield = op.yield();
  Location loc = yield.getLoc();
  const auto firstSum = unsigned(yield.getCarried().size() + yield.getStacked().size());
  for (auto [i, v] : llvm::enumerate(yield.getStacked())) {
    Destination destination = l.destinations.lookup(&yield->getOpOperand(yield.getCarried().size() + i));
    if (destination.buffer && !l.added.contains(v) && !isa<BlockArgument>(v))
      l.copy(destination.buffer, l.read(v), v.getLoc(), destination.adds);
  }
  for (auto [i, v] : llvm::enumerate(yield.getSummed()))
    if (Value sum = l.destinations.lookup(&yield->getOpOperand(firstSum + i)).buffer;
        !(l.added.contains(v) && l.buffers.lookup(v) == sum))
      l.copy(sum, l.read(v), v.getLoc(), true);
  // a carried value that is another one's place is taken before that is overwritten
  SmallVector<Value> sources;
  for (auto [i, v] : llvm::enumerate(yield.getCarried())) {
    Value source = l.read(v);
    for (auto [j, place] : llvm::enumerate(places.carried))
      if (i != j && !places.lists[j] && rt::allocOf(source) == rt::allocOf(place)) {
        Value taken = l.alloc(rt::buffer(source), loc);
        l.copy(taken, source, loc);
        source = taken;
        break;
      }
    sources.push_back(source);
  }
  for (auto [source, place] : llvm::zip(sources, places.next))
    l.copy(place, source, loc);
  return success();
}

/// The stack that is a part of a carried value's list: what comes in, or what leaves, in each iteration.
Value partOfList(Lowering &l, ech::RepeatOp op, unsigned stack, const Places &places) {
  Value v = op.yield().getStacked()[stack];
  if (l.hasDestination(op.getStacks()[stack]))
    return {};
  for (auto [i, list] : llvm::enumerate(places.lists)) {
    if (!list)
      continue;
    bool leaves = v == op.yield().getCarried()[i] && !isa<BlockArgument>(v);
    if (leaves || v == op.carriedArguments()[i])
      return l.range(list, op.getAxis(), leaves ? 1 : 0, ownCount(l, op), list.getLoc());
  }
  return {};
}

/// Before the loop: where its results lie.
void placeResults(Lowering &l, ech::RepeatOp op, Places &places) {
  for (unsigned i = 0; i < op.getCarried().size(); ++i) {
    Value list = listOfCarried(l, op, i);
    places.lists.push_back(list);
    places.carried.push_back(list ? list : carriedPlace(l, op, i));
    Value final = op.getFinals()[i];
    l.bind(final, list ? l.slice(list, op.getAxis(), ownCount(l, op), final.getLoc()) : places.carried.back());
  }
  for (auto [i, stack] : llvm::enumerate(op.getStacks())) {
    if (auto turns = op->getAttrOfType<DictionaryAttr>(dist::kTurns)) { // a place for each slot
      l.chunks = chunksOf(l, turns);
      Buffer all = l.bufferType(stack);
      l.chunks = {};
      SmallVector<Axis> axes(all.getAxes());
      axes.front() = {l.b.getStringAttr(kSlot), turns.getAs<IntegerAttr>("slots").getInt()};
      Value slots = l.alloc(axes, all.getElement(), l.locOf(stack));
      l.bind(stack, slots);
      places.stacks.push_back({slots});
      continue;
    }
    Value part = partOfList(l, op, i, places);
    places.stacks.push_back(part ? Destination() : l.target(stack));
    if (part)
      l.bind(stack, part);
  }
  for (Value sum : op.getSums()) {
    places.sums.push_back(l.target(sum));
    if (!places.sums.back().adds)
      l.fill(places.sums.back().buffer, 0, sum.getLoc());
  }
}

/// In the loop: where an iteration finds its arguments and leaves what it yields.
void placeValues(Lowering &l, ech::RepeatOp op, Places &places, Value position, Value slot) {
  ech::YieldOp yield = op.yield();
  places.next = places.carried;
  for (auto [i, list] : llvm::enumerate(places.lists))
    if (list) {
      Location loc = op.carriedArguments()[i].getLoc();
      places.carried[i] = l.slice(list, op.getAxis(), 0, loc, position);
      places.next[i] = l.slice(list, op.getAxis(), 1, loc, position);
    }
  for (auto [argument, place] : llvm::zip(op.carriedArguments(), places.carried))
    l.bind(argument, place);
  for (auto [argument, whole] : llvm::zip(op.sliceArguments(), op.getSlices())) {
    Value from = l.read(whole);
    const bool isInSlot = rt::buffer(from).has(kSlot);
    l.bind(argument,
           l.slice(from, isInSlot ? StringRef(kSlot) : op.getAxis(), 0, argument.getLoc(), isInSlot ? slot : position));
  }
  unsigned next = 0;
  for (Value place : places.next)
    l.destinations[&yield->getOpOperand(next++)] = {place};
  for (auto [place, v] : llvm::zip(places.stacks, yield.getStacked())) {
    OpOperand &use = yield->getOpOperand(next++);
    if (!place.buffer)
      continue;
    const bool isInSlot = rt::buffer(place.buffer).has(kSlot);
    Value there =
        l.slice(place.buffer, isInSlot ? StringRef(kSlot) : op.getAxis(), 0, v.getLoc(), isInSlot ? slot : position);
    Destination destination{there, place.adds};
    l.destinations[&use] = destination;
    if (auto start = v.getDefiningOp<dist::StartEachOp>(); start && start.getValue().hasOneUse()) // summed in place
      l.destinations[&start->getOpOperand(0)] = destination;
    if (isa<BlockArgument>(v)) // kept as it comes in
      l.copy(destination.buffer, l.read(v), v.getLoc(), destination.adds);
  }
  for (auto [place, v] : llvm::zip(places.sums, yield.getSummed()))
    l.destinations[&yield->getOpOperand(next++)] = {l.chunkOf(place.buffer, ech::tensor(v), v.getLoc()), true};
}

/// A free value that was first read in a block is made there; who reads it outside of the block makes it again.
void forgetFree(Lowering &l, Block &made, Region &of) {
  SmallVector<Value> there;
  for (auto [value, buffer] : l.buffers) {
    Operation *def = buffer.getDefiningOp();
    if (def && made.findAncestorOpInBlock(*def) && !of.isAncestor(value.getParentRegion()))
      there.push_back(value);
  }
  for (Value value : there)
    l.buffers.erase(value);
}

/// The iterations, at a position, in `into`; what is kept from one loop to another is in a slot.
LogicalResult lowerIterations(Lowering &l, ech::RepeatOp op, Places &places, Block &into, Value position, Value slot) {
  OpBuilder::InsertionGuard guard(l.b);
  l.b.setInsertionPointToStart(&into);
  Value outerPosition = l.positions.lookup(op.getAxis());
  Value inAll = l.positions[op.getAxis()] = positionInAll(l, op, position);
  l.loopAxes.push_back({op.getAxis().str(), static_cast<int64_t>(op.getCount()), op.getTime()});
  placeValues(l, op, places, position, slot);
  l.reserveMessages(*op.block());
  for (Operation &inner : op.block()->without_terminator())
    if (failed(l.lower(&inner)))
      return failure();
  l.loopAxes.pop_back();
  if (failed(lowerYield(l, op, places, position)))
    return failure();
  if (auto phase = op->getAttr(ech::kPhase)) // copies between iterations are of the loop's phase
    for (Operation &made : *l.b.getInsertionBlock())
      if (!made.hasAttr(ech::kPhase))
        made.setAttr(ech::kPhase, phase);
  forgetFree(l, into, op.getBody());
  if (inAll != position && inAll.use_empty())
    inAll.getDefiningOp()->erase();
  if (outerPosition)
    l.positions[op.getAxis()] = outerPosition;
  else
    l.positions.erase(op.getAxis());
  return success();
}

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
  for (Operation *next = loop->getNextNode(); next; next = next->getNextNode())
    if (auto turns = next->getAttrOfType<DictionaryAttr>(dist::kTurns)) {
      if (turns.getAs<StringAttr>("part").getValue() == "forward")
        break; // of the next pass
      later.push_back(cast<ech::RepeatOp>(next));
    }
  return later;
}

/// What the later loops of a pipeline read comes before the first one: they all run in its turns.
LogicalResult lowerForLater(Lowering &l, ech::RepeatOp first, ArrayRef<ech::RepeatOp> later) {
  SmallVector<Value> open;
  llvm::SmallPtrSet<Operation *, 4> loops{first};
  for (ech::RepeatOp loop : later) {
    loops.insert(loop);
    loop->walk([&](Operation *inner) { llvm::append_range(open, inner->getOperands()); });
  }
  llvm::SetVector<Operation *> needed;
  while (!open.empty()) {
    Operation *def = open.pop_back_val().getDefiningOp();
    if (!def || def->getBlock() != first->getBlock() || def->isBeforeInBlock(first) || loops.contains(def) ||
        !needed.insert(def))
      continue;
    def->walk([&](Operation *inner) { llvm::append_range(open, inner->getOperands()); });
  }
  SmallVector<Operation *> order = needed.takeVector();
  llvm::sort(order, [](Operation *a, Operation *b) { return a->isBeforeInBlock(b); });
  for (Operation *op : order) {
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

LogicalResult lowerRepeat(Lowering &l, ech::RepeatOp op) {
  if (auto turns = op->getAttrOfType<DictionaryAttr>(dist::kTurns))
    return op.getCount() == 0 ? lowerOpenTurns(l, op, turns) : lowerTurns(l, op, turns);
  Places places;
  placeResults(l, op, places);
  auto loop = rt::ForOp::create(l.b, op.getLoc(), op.getAxis(), ownCount(l, op), op.getReverse(), op.getTime());
  return lowerIterations(l, op, places, loop.getBody().front(), loop.position(), loop.position());
}

/// What the ranks on the first stage do, or those on the last; with `except` all others. Of a stage's chunks the first
/// begins and the last ends.
rt::AtOp atEnd(Lowering &l, Operation *op, StringRef over, bool isFirst, bool except) {
  const int64_t m = l.mesh.index(over);
  auto at = rt::AtOp::create(l.b, op->getLoc(), isFirst ? 0 : l.mesh.sizeOf(m) - 1, m, over, except, l.chunks.turn,
                             l.chunks.turn ? l.b.getI64IntegerAttr(isFirst ? 0 : l.chunks.count - 1) : IntegerAttr());
  at.getBody().emplaceBlock();
  return at;
}

/// A result lies where it is wanted, or in a place of its own, on all ranks: others read there what a dist.receive
/// brings, or nothing. What is a share of a sum, elsewhere nothing, and not added up where it is made, is 0 there.
LogicalResult lowerAt(Lowering &l, dist::AtOp op) {
  const int m = l.mesh.index(op.getOver());
  dist::YieldOp yield = op.yield();
  SmallVector<Destination> places;
  for (auto [value, result] : llvm::zip(yield.getValues(), op.getResults())) {
    places.push_back(l.target(result));
    const bool isShare =
        dist::stateOf(result)[m].hold == dist::Hold::Sum && dist::stateOf(value)[m].hold != dist::Hold::Sum;
    if (isShare && !places.back().adds)
      l.fill(places.back().buffer, 0, op.getLoc());
  }
  rt::AtOp at = atEnd(l, op, op.getOver(), op.getStage() == "first", /*except=*/false);
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

/// Done by all ranks but those at one end of the stages.
template <typename Message, typename... More>
Message toNeighbor(Lowering &l, Operation *op, Value buffer, StringRef over, StringRef toward, StringRef why,
                   More... more) {
  const int64_t m = l.mesh.index(over);
  const bool isNext = toward == "next";
  OpBuilder inside = OpBuilder::atBlockBegin(&atEnd(l, op, over, !isNext, /*except=*/true).getBody().front());
  auto message = Message::create(inside, op->getLoc(), buffer, isNext ? 1 : -1, ArrayRef<int64_t>(m), l.mesh.sizeOf(m),
                                 over, why, /*around=*/bool(l.chunks.turn), more...);
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
    OpBuilder::InsertionGuard guard(l.b);
    rt::AtOp at = atEnd(l, op, op.getOver(), op.getFrom() == "previous", /*except=*/false);
    l.b.setInsertionPointToStart(&at.getBody().front());
    l.copy(place, from, op.getLoc());
    for (Operation &made : at.getBody().front())
      copyPhase(op, &made);
  }
  toNeighbor<rt::ReceiveOp>(l, op, place, op.getOver(), op.getFrom(), op.getWhy());
  return success();
}

LogicalResult lowerSend(Lowering &l, dist::SendOp op) {
  Value buffer = l.read(op.getValue());
  const int64_t buffers = l.chunks.axis ? l.chunks.buffers : 1;
  if (!rt::buffer(buffer).isDense()) {
    Value dense = l.alloc(l.bufferType(op.getValue()), op.getLoc());
    l.copy(dense, buffer, op.getLoc());
    buffer = dense;
  }
  if (!l.turns) {
    toNeighbor<rt::SendOp>(l, op, buffer, op.getOver(), op.getTo(), op.getWhy(), Value(), Value());
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
    toNeighbor<rt::SendOp>(l, op, buffer, op.getOver(), op.getTo(), op.getWhy(), tickets, Value());
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
  auto send = toNeighbor<rt::SendOp>(l, op, own, op.getOver(), op.getTo(), op.getWhy(), tickets, l.chunks.buffer);
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

LogicalResult Lowering::step(ech::StepOp step, rt::FunctionOp into) {
  function = into;
  evaluates = step.getSymName() == "evaluate";
  OpBuilder::InsertionGuard guard(b);
  b.setInsertionPointToEnd(&into.getBody().front());
  return lowerStep(*this, step);
}

void echelon::lower::addStructure(Lowering &l) {
  l.add<ech::ReadOp>(lowerRead);
  l.add<ech::ReportOp>(lowerReport);
  l.add<ech::RepeatOp>(lowerRepeat);
  l.add<dist::AtOp>(lowerAt);
  l.add<dist::ReceiveOp>(lowerReceive);
  l.add<dist::SendOp>(lowerSend);
}
