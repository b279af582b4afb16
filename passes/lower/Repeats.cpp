// Repeats: where what they carry, stack and sum up lies, and their iterations.
#include "passes/lower/Repeats.h"
#include "passes/Phase.h"
#include "passes/lower/Places.h"

using namespace mlir;
using namespace echelon;
using namespace echelon::lower;

namespace {
constexpr StringLiteral kChunk = "chunk";

/// Of a repeat whose iterations stages of a pipeline divide, how; of others one rank has them all.
struct Stages {
  Stages(Lowering &l, ech::RepeatOp op) : mesh(dist::stagesOf(l.mesh, op.getAxis())) {
    if (mesh < 0)
      return;
    map = l.mesh.mapOf(mesh, op.getAxis(), static_cast<int64_t>(op.getCount()));
    ranks = l.mesh.sizeOf(mesh);
    isInTurn = l.chunks.have(op.getAxis());
  }
  int mesh;
  dist::OwnerMap map;
  int64_t ranks = 1;
  bool isInTurn = false; ///< of one chunk
};

/// How many of a repeat's iterations a rank does in a row: of those that stages of a pipeline divide, its own, or those
/// of a turn; where these are not equally many on all ranks, the most.
int64_t ownCount(Lowering &l, ech::RepeatOp op) {
  const Stages stages(l, op);
  return stages.map.stored(static_cast<int64_t>(op.getCount()), stages.ranks) /
         (stages.isInTurn ? stages.map.chunks : 1);
}

/// Of numbers for each chunk of a repeat's iterations, this rank's in this turn, with `position` added.
Value ofChunk(Lowering &l, ech::RepeatOp op, ArrayRef<int64_t> numbers, StringRef name, Value position) {
  const Stages stages(l, op);
  if (!stages.isInTurn && !position) {
    Lowering::Terms terms{{stages.mesh}, {}, rt::SizeAttr(), 0, SmallVector<int64_t>(numbers)};
    return l.offset(terms, 0, name);
  }
  Value turn = stages.isInTurn ? l.chunks.turn : Value();
  return rt::OffsetOp::create(l.b, NameLoc::get(l.b.getStringAttr(name), op.getLoc()), l.b.getIndexType(),
                              l.list(stages.mesh), l.list({}), l.b.getI64IntegerAttr(0), rt::SizeAttr(),
                              l.list(numbers), l.list(stages.ranks), position, turn,
                              turn ? l.b.getI64IntegerAttr(stages.ranks) : IntegerAttr());
}

/// How many iterations this rank does, where ranks differ; of several chunks, in a turn.
Value ownIterations(Lowering &l, ech::RepeatOp op) {
  const Stages stages(l, op);
  return stages.map.isEqual() || (stages.map.chunks > 1 && !stages.isInTurn)
             ? Value()
             : ofChunk(l, op, stages.map.sizes, ("own_" + op.getAxis()).str(), Value());
}

/// The position of an iteration among all, of one among the rank's own.
Value positionInAll(Lowering &l, ech::RepeatOp op, Value position) {
  const Stages stages(l, op);
  if (stages.mesh < 0)
    return position;
  const std::string called = ("at_" + op.getAxis()).str();
  if (!stages.map.isEqual()) {
    SmallVector<int64_t> begins;
    for (size_t chunk = 0; chunk < stages.map.sizes.size(); ++chunk)
      begins.push_back(stages.map.before(int64_t(chunk)));
    return ofChunk(l, op, begins, called, position);
  }
  const int64_t count = ownCount(l, op);
  auto size = rt::SizeAttr::get(l.b.getContext(), Axis{op.getAxisAttr(), count});
  auto name = NameLoc::get(l.b.getStringAttr(called), op.getLoc());
  Value turn = stages.isInTurn ? l.chunks.turn : Value();
  return rt::OffsetOp::create(l.b, name, l.b.getIndexType(), l.list(stages.mesh), l.list(count),
                              l.b.getI64IntegerAttr(0), size, DenseI64ArrayAttr(), DenseI64ArrayAttr(), position, turn,
                              turn ? l.b.getI64IntegerAttr(count * stages.ranks) : IntegerAttr());
}

/// Whether somebody reads of what the iterations stack up more than what each has made: then there is to be something
/// where a rank has fewer iterations than others.
bool isReadAsWhole(Value stack, StringRef axis) {
  return llvm::any_of(stack.getUses(), [&](OpOperand &use) {
    auto loop = dyn_cast<ech::RepeatOp>(use.getOwner());
    const bool isSlice = loop && loop.getAxis() == axis && use.getOperandNumber() >= loop.getCarried().size();
    auto yield = dyn_cast<ech::YieldOp>(use.getOwner());
    const size_t carried = yield ? yield.getCarried().size() : 0, place = use.getOperandNumber();
    const bool isKept = yield && place >= carried && place < carried + yield.getStacked().size();
    return !isSlice && !isKept;
  });
}

/// Zeros where some rank makes nothing.
void fillPadding(Lowering &l, ech::RepeatOp op, Value stack, Destination place) {
  const Stages stages(l, op);
  if (stages.map.isEqual() || place.adds || !isReadAsWhole(stack, op.getAxis()))
    return;
  const int64_t least = *std::min_element(stages.map.sizes.begin(), stages.map.sizes.end());
  if (least < ownCount(l, op))
    l.fill(l.range(place.buffer, op.getAxis(), least, ownCount(l, op) - least, op.getLoc()), 0, op.getLoc());
}

/// Whether `start` alone lies in `first`, and was computed there.
bool isOwnMemory(Lowering &l, ech::RepeatOp op, Value start, Value first) {
  Operation *producer = start.getDefiningOp();
  return producer && rt::buffer(first).isDense() && first.getDefiningOp<rt::AllocOp>() &&
         rt::allocOf(first).getArena() == rt::Arena::Work && producer->getBlock() == op->getBlock() &&
         llvm::count_if(l.buffers, [&](auto &entry) { return entry.second == first; }) == 1;
}

/// What a loop begins or ends with is copied where there are iterations: of repeats in a row, not at all stages.
void copyOfLoop(Lowering &l, ech::RepeatOp op, Value to, Value from) {
  const Stages stages(l, op);
  if (stages.map.isEqual())
    return l.copy(to, from, op.getLoc());
  const std::vector<int64_t> &sizes = stages.map.sizes;
  auto hasSome = [](int64_t size) { return size > 0; };
  const int64_t begin = llvm::find_if(sizes, hasSome) - sizes.begin();
  const int64_t end = std::find_if(sizes.rbegin(), sizes.rend(), hasSome).base() - sizes.begin();
  copyAtPlaces(l, op, l.mesh.nameOf(stages.mesh), begin, end - 1, to, from);
}

/// A value that a pass keeps, where it is.
void copyKept(Lowering &l, Value v, Destination to) {
  auto receive = v.getDefiningOp<dist::ReceiveOp>();
  auto loop = v.getDefiningOp<ech::RepeatOp>();
  if (receive)
    copyAtPlaces(l, receive, receive.getOver(), int64_t(receive.getFirst()), int64_t(receive.getLast()), to.buffer,
                 l.read(v));
  else if (loop && !to.adds && !Stages(l, loop).map.isEqual())
    copyOfLoop(l, loop, to.buffer, l.read(v));
  else
    l.copy(to.buffer, l.read(v), v.getLoc(), to.adds);
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
      copyOfLoop(l, op, begin, first);
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
  copyOfLoop(l, op, place, first);
  return place;
}

/// Of a sum of a pass to which one stage alone adds, and which others do not have: what adds to it there; null of
/// others.
dist::AtOp aloneInSum(ech::RepeatOp op, unsigned sum) {
  Value total = op.getSums()[sum];
  auto alone = total.hasOneUse() ? dyn_cast<dist::SliceOp>(*total.user_begin()) : dist::SliceOp();
  return alone && dist::placeOf(alone) ? op.yield().getSummed()[sum].getDefiningOp<dist::AtOp>() : dist::AtOp();
}

LogicalResult lowerYield(Lowering &l, ech::RepeatOp op, Places &places, Value position) {
  ech::YieldOp yield = op.yield();
  Location loc = yield.getLoc();
  const auto firstSum = unsigned(yield.getCarried().size() + yield.getStacked().size());
  for (auto [i, v] : llvm::enumerate(yield.getStacked())) {
    Destination destination = l.destinations.lookup(&yield->getOpOperand(yield.getCarried().size() + i));
    if (destination.buffer && !l.added.contains(v) && !isa<BlockArgument>(v))
      copyKept(l, v, destination);
  }
  for (auto [i, v] : llvm::enumerate(yield.getSummed()))
    if (Value sum = l.destinations.lookup(&yield->getOpOperand(firstSum + i)).buffer;
        !(l.added.contains(v) && l.buffers.lookup(v) == sum)) {
      if (dist::AtOp at = aloneInSum(op, unsigned(i)))
        copyAtPlaces(l, at, at.getOver(), int64_t(at.getPlace()), int64_t(at.getPlace()), sum, l.read(v), true);
      else
        l.copy(sum, l.read(v), v.getLoc(), true);
    }
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
} // namespace

void echelon::lower::placeResults(Lowering &l, ech::RepeatOp op, Places &places) {
  places.own = ownIterations(l, op);
  for (unsigned i = 0; i < op.getCarried().size(); ++i) {
    Value list = listOfCarried(l, op, i);
    places.lists.push_back(list);
    places.carried.push_back(list ? list : carriedPlace(l, op, i));
    Value final = op.getFinals()[i];
    l.bind(final, list ? l.slice(list, op.getAxis(), places.own ? 0 : ownCount(l, op), final.getLoc(), places.own)
                       : places.carried.back());
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
    else
      fillPadding(l, op, stack, places.stacks.back());
  }
  for (auto [i, sum] : llvm::enumerate(op.getSums())) {
    places.sums.push_back(l.target(sum));
    if (places.sums.back().adds)
      continue;
    const bool isAlone = bool(aloneInSum(op, unsigned(i)));
    Marking marking(l, isAlone ? dist::placeOf(*sum.user_begin()) : std::nullopt);
    l.fill(places.sums.back().buffer, 0, sum.getLoc());
  }
}

void echelon::lower::forgetFree(Lowering &l, Block &made, Region &of) {
  SmallVector<Value> there;
  for (auto [value, buffer] : l.buffers) {
    Operation *def = buffer.getDefiningOp();
    if (def && made.findAncestorOpInBlock(*def) && !of.isAncestor(value.getParentRegion()))
      there.push_back(value);
  }
  for (Value value : there)
    l.buffers.erase(value);
}
LogicalResult echelon::lower::lowerIterations(Lowering &l, ech::RepeatOp op, Places &places, Block &into,
                                              Value position, Value slot) {
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

/// A repeat that hands on nothing, outside of turns: a rank does its chunks one after the other, in a loop over them.
static LogicalResult lowerInChunks(Lowering &l, ech::RepeatOp op, const Stages &stages) {
  Places places;
  placeResults(l, op, places);
  OpBuilder::InsertionGuard guard(l.b);
  auto chunks = rt::ForOp::create(l.b, op.getLoc(), kChunk, stages.map.chunks, op.getReverse(), /*time=*/false);
  l.b.setInsertionPointToStart(&chunks.getBody().front());
  l.chunks = {l.mesh.getAxes()[stages.mesh].list, stages.map.chunks, 1, chunks.position(), {}};
  places.own = ownIterations(l, op);
  for (auto [stack, place] : llvm::zip(op.getStacks(), places.stacks))
    place.buffer = l.chunkOf(place.buffer, ech::tensor(stack), stack.getLoc());
  auto loop =
      rt::ForOp::create(l.b, op.getLoc(), op.getAxis(), ownCount(l, op), op.getReverse(), op.getTime(), places.own);
  const LogicalResult lowered =
      lowerIterations(l, op, places, loop.getBody().front(), loop.position(), loop.position());
  l.chunks = {};
  return lowered;
}

static LogicalResult lowerRepeat(Lowering &l, ech::RepeatOp op) {
  if (auto turns = op->getAttrOfType<DictionaryAttr>(dist::kTurns))
    return lowerInTurns(l, op, turns);
  const Stages stages(l, op);
  if (stages.map.chunks > 1 && !stages.isInTurn)
    return lowerInChunks(l, op, stages);
  Places places;
  placeResults(l, op, places);
  auto loop =
      rt::ForOp::create(l.b, op.getLoc(), op.getAxis(), ownCount(l, op), op.getReverse(), op.getTime(), places.own);
  return lowerIterations(l, op, places, loop.getBody().front(), loop.position(), loop.position());
}
void echelon::lower::addRepeats(Lowering &l) { l.add<ech::RepeatOp>(lowerRepeat); }
