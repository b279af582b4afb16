// Destinations: where a value goes that is only on its way to a place that exists, and whether that place may be
// written yet. A term of a sum of two is added where the sum goes, if that place adds, or else to where the other term
// lies.
//
//   next w = w - lr * g                w's own place, once nobody reads the old w any more
//   repeat layer = 4 { x = f(x) }      the place of what the loop carries, for the last value of an iteration
//   a read after the loop, of each l   row l of the stack
//   all_reduce of (a, b)               a's and b's parts of the message: no copy before it is sent
//   dot(a, b) + dot(c, d)              the second product adds to where the first one lies
#include "ir/run/Run.h"
#include "passes/lower/ShardView.h"

using namespace mlir;
using namespace echelon;
using namespace echelon::lower;

namespace {
/// Operations whose result is (or may be) the memory of their operand.
bool isSeenThrough(Operation *op) {
  return isa<ech::RelabelOp, ech::PickOp, ech::SliceOp, ech::ExpandOp, ech::PerWorkerOp, ech::HandInOp, dist::SliceOp>(
      op);
}

/// Visits the operations, in `block`, that read the memory of v; false when `visit` says so once.
bool forEachReader(Value v, Block *block, function_ref<bool(Operation *, OpOperand &)> visit) {
  for (OpOperand &use : v.getUses()) {
    Operation *at = block->findAncestorOpInBlock(*use.getOwner());
    if (at == use.getOwner() && isSeenThrough(at)) {
      if (!forEachReader(at->getResult(0), block, visit))
        return false;
    } else if (!at || !visit(at, use)) {
      return false;
    }
  }
  return true;
}

/// Whether a loop nest may write `produced` where it reads `use`: element by element.
bool writesWhereItReads(Lowering &l, rt::GroupOp group, OpOperand &use, Value produced) {
  auto yield = cast<rt::YieldOp>(group.getBody().front().getTerminator());
  Value inner = yield.getValues()[cast<OpResult>(produced).getResultNumber()];
  if (inner.getDefiningOp<ech::ReduceOp>())
    return false;
  Buffer type = l.bufferType(produced);
  if (l.bufferType(use.get()) != type)
    return false;
  for (Value v : llvm::concat<Value>(llvm::to_vector(group.getInputs()), llvm::to_vector(group.getOutputs())))
    for (const Axis &a : l.local(v).getAxes())
      if (!type.has(a.name))
        return false; // the element is read again for other places
  return true;
}

/// The strides of a relabel's operand that lies where its result does: axes have other names, each its own, or become
/// one with those behind them. Nothing where it is more than that.
std::optional<SmallVector<int64_t>> stridesBefore(Lowering &l, ech::RelabelOp op, Buffer there) {
  ArrayRef<Axis> before = l.local(op.getOperand()).getAxes(), after = l.local(op.getResult()).getAxes();
  SmallVector<int64_t> strides;
  for (const Axis &axis : after) {
    SmallVector<StringRef> sources{axis.name.getValue()};
    for (auto [from, to] : llvm::zip(op.getFrom(), op.getTo()))
      if (strings(cast<ArrayAttr>(to)) == sources) {
        sources = strings(cast<ArrayAttr>(from));
        break;
      }
    if (!there.has(axis.name) || before.size() < strides.size() + sources.size())
      return {};
    ArrayRef<Axis> parts = before.slice(strides.size(), sources.size());
    int64_t size = 1, stride = there.strideOf(axis.name);
    SmallVector<int64_t> own;
    for (auto [part, source] : llvm::reverse(llvm::zip_equal(parts, sources))) {
      if (part.name != source)
        return {};
      own.insert(own.begin(), stride * size);
      size *= part.size;
    }
    if (size != axis.size)
      return {};
    llvm::append_range(strides, own);
  }
  return strides.size() == before.size() ? std::optional(strides) : std::nullopt;
}

/// The terms of an operation that is nothing but a sum of two; null where it is not.
std::pair<Value, Value> termsOfSum(Operation *op) {
  auto map = dyn_cast<ech::MapOp>(op);
  auto group = dyn_cast<rt::GroupOp>(op);
  if (group && group.getOutputs().size() == 1 && llvm::hasNItems(group.getBody().front().without_terminator(), 1))
    map = dyn_cast<ech::MapOp>(group.getBody().front().front());
  if (!map || map.getFunction() != ech::Function::Add || op->getNumOperands() != 2 ||
      op->getOperand(0) == op->getOperand(1))
    return {};
  return {op->getOperand(0), op->getOperand(1)};
}

/// The result of the message over which v, and nothing else, is summed where it lies; null where there is none.
Value summed(Value v) {
  auto message = v.hasOneUse() ? dyn_cast<dist::AllReduceOp>(*v.user_begin()) : dist::AllReduceOp();
  bool alone = message && message.getValues().size() == 1 && message->getBlock() == v.getParentBlock();
  return alone ? message.getResults()[0] : Value();
}

/// The message that gathers v, and nothing else, from all ranks; null where there is none.
dist::AllGatherOp gathering(Value v) {
  auto message = v.hasOneUse() ? dyn_cast<dist::AllGatherOp>(*v.user_begin()) : dist::AllGatherOp();
  bool alone = message && message.getValues().size() == 1 && message->getBlock() == v.getParentBlock();
  return alone ? message : dist::AllGatherOp();
}
} // namespace

Destination Lowering::destinationOfTerm(Value v) {
  if (!v.hasOneUse() || v.use_begin()->getOwner()->getBlock() != v.getParentBlock())
    return {};
  Operation *sum = *v.user_begin();
  auto [a, b] = termsOfSum(sum);
  if (!a || bufferType(a) != bufferType(b) || bufferType(a) != bufferType(sum->getResult(0)))
    return {};
  Destination destination = findDestination(sum->getResult(0));
  if (destination.buffer)
    return destination.adds ? destination : Destination();
  // the other term's own memory, which nothing else will read
  Value other = v == a ? b : a, place = buffers.lookup(other);
  Operation *producer = other.getDefiningOp();
  auto alloc = place ? place.getDefiningOp<rt::AllocOp>() : rt::AllocOp();
  if (!alloc || alloc.getArena() != rt::Arena::Work || !producer || producer->getBlock() != sum->getBlock() ||
      isSeenThrough(producer) || !other.hasOneUse() || added.contains(other))
    return {};
  for (auto [value, buffer] : buffers)
    if (buffer == place && value != other && !added.contains(value))
      return {};
  return {place, true};
}

bool Lowering::isAddedUp(Operation *op) {
  auto [a, b] = termsOfSum(op);
  if (!a || (!added.contains(a) && !added.contains(b)))
    return false;
  Value term = added.contains(a) ? a : b, other = term == a ? b : a, place = buffers.lookup(term);
  if (buffers.lookup(other) != place)
    copy(place, read(other), op->getLoc(), true);
  if (buffers.lookup(other) != place || added.contains(other)) // the place is not the other term's own
    added.insert(op->getResult(0));
  bind(op->getResult(0), place);
  return true;
}

bool Lowering::isFreeAt(Value holder, Operation *producer, Value produced) {
  Block *block = producer->getBlock();
  auto isSamePart = [&](Value read) { // as the one that is produced
    auto slice = read.getDefiningOp<dist::SliceOp>();
    return slice && slice.getValue() == holder && ech::tensor(read).getState() == ech::tensor(produced).getState();
  };
  return forEachReader(holder, block, [&](Operation *reader, OpOperand &use) {
    if (reader == producer) {
      auto group = dyn_cast<rt::GroupOp>(producer);
      return group && use.getOwner() == producer && (use.get() == holder || isSamePart(use.get())) &&
             writesWhereItReads(*this, group, use, produced);
    }
    return reader->isBeforeInBlock(producer);
  });
}

Destination Lowering::destinationInWhole(Value v, dist::AllGatherOp gather) {
  Destination whole = findDestination(gather.getResults()[0], v);
  if (!whole.buffer || whole.adds)
    return {};
  SmallVector<int> over;
  for (StringRef name : ech::strings(gather.getOver()))
    over.push_back(mesh.index(name));
  llvm::sort(over);
  Value parts = ShardView(*this, ech::tensor(v), over, gather.getLoc()).exact(whole.buffer);
  if (!parts || !rt::buffer(parts).isDense())
    return {};
  return {pieceOf(whole.buffer, ech::tensor(gather.getResults()[0]), ech::tensor(v), gather.getLoc())};
}

bool Lowering::isDestinationOfMessage(Value v, Value buffer) {
  Value sum = summed(v);
  return sum && findDestination(sum, v).buffer == buffer;
}

/// In a program that skips steps, a state, and what a compression keeps, change where it is known that the step is none
/// of these.
bool Lowering::waitsForCheck(ech::WriteOp write) {
  auto variable = module.lookupSymbol<ech::VariableOp>(write.getTarget());
  auto step = dyn_cast<ech::StepOp>(write->getParentOp());
  return run::skipsSteps(module) && variable &&
         (variable.getKind() == ech::VariableKind::State || variable.getKind() == ech::VariableKind::Compression) &&
         step && (step.getSymName() == "train" || step.getSymName() == "update");
}

Destination Lowering::findDestination(Value v, Value written) {
  Operation *producer = written.getDefiningOp();
  if (!producer)
    return {};
  // the next state
  for (OpOperand &use : v.getUses())
    if (auto write = dyn_cast<ech::WriteOp>(use.getOwner());
        write && write->getBlock() == producer->getBlock() && !waitsForCheck(write)) {
      bool free = llvm::all_of(reads[write.getTarget()], [&](Value read) { return isFreeAt(read, producer, written); });
      bool read = written.getDefiningOp<ech::ReadOp>() || isSeenThrough(producer);
      if (free && !read && stored.count(write.getTarget()) && rt::buffer(stored[write.getTarget()]) == bufferType(v))
        return {stored[write.getTarget()]};
    }
  // carried, stacked and summed values, parts of messages
  for (OpOperand &use : v.getUses()) {
    auto destination = destinations.find(&use);
    if (destination == destinations.end())
      continue;
    if (destination->second.adds && !v.hasOneUse())
      continue;
    auto yield = dyn_cast<ech::YieldOp>(use.getOwner());
    if (yield && use.getOperandNumber() < yield.getCarried().size()) {
      Value argument = cast<ech::RepeatOp>(yield->getParentOp()).carriedArguments()[use.getOperandNumber()];
      if (buffers.lookup(argument) == destination->second.buffer && !isFreeAt(argument, producer, written))
        continue;
    }
    return destination->second;
  }
  if (v != written) // a message has no other axes
    return {};
  // what is stacked under other names
  for (Operation *user : v.getUsers()) {
    auto relabel = dyn_cast<ech::RelabelOp>(user);
    if (!relabel || relabel->getBlock() != producer->getBlock())
      continue;
    for (OpOperand &use : relabel.getResult().getUses()) {
      Destination destination = destinations.lookup(&use);
      auto yield = dyn_cast<ech::YieldOp>(use.getOwner());
      if (!destination.buffer || destination.adds || (yield && use.getOperandNumber() < yield.getCarried().size()))
        continue;
      if (!yield && !v.hasOneUse()) // a message sums where it lies
        continue;
      Buffer there = rt::buffer(destination.buffer);
      const auto strides = stridesBefore(*this, relabel, there);
      if (!strides || there.getElement() != local(v).getElement())
        continue;
      Buffer type = Buffer::get(b.getContext(), local(v).getAxes(), there.getElement(), *strides);
      return {view(destination.buffer, 0, type, destination.buffer.getLoc())};
    }
  }
  if (dist::AllGatherOp gather = gathering(v))
    return destinationInWhole(v, gather);
  if (Value sum = summed(v)) {
    Destination destination = findDestination(sum, written);
    return destination.buffer && !destination.adds && rt::buffer(destination.buffer) == bufferType(v) ? destination
                                                                                                      : Destination();
  }
  return destinationOfTerm(v);
}

Destination Lowering::target(Value v) {
  Destination destination = findDestination(v);
  if (!destination.buffer)
    destination.buffer = alloc(bufferType(v), locOf(v));
  if (destination.adds)
    added.insert(v);
  bind(v, destination.buffer);
  return destination;
}

Value Lowering::result(Value v, bool mustBeDense) {
  Destination destination = findDestination(v);
  if (!destination.buffer || destination.adds || (mustBeDense && !rt::buffer(destination.buffer).isDense()))
    destination.buffer = alloc(bufferType(v), locOf(v));
  bind(v, destination.buffer);
  return destination.buffer;
}
