// Rules, collectives, reports: what they check, and what they touch.
#include "ir/ech/Ech.h"
#include "ir/rt/Rt.h"
#include "mlir/IR/SymbolTable.h"

using namespace mlir;
using namespace echelon::rt;

//===- rt.invoke -------------------------------------------------------------------------------------------------===//

FunctionOp InvokeOp::function() { return SymbolTable::lookupNearestSymbolFrom<FunctionOp>(*this, getCalleeAttr()); }

LogicalResult InvokeOp::verify() {
  FunctionOp callee = function();
  if (!callee)
    return emitOpError() << "invokes " << getCallee() << ", which is no function of the module";
  SmallVector<Type> wanted;
  for (Type type : callee.getBody().getArgumentTypes())
    if (!type.isIndex())
      wanted.push_back(type);
  if (wanted.size() != getOperands().size())
    return emitOpError() << "has " << getOperands().size() << " operands, and " << getCallee() << " takes "
                         << wanted.size();
  for (auto [operand, type] : llvm::zip(getOperands(), wanted)) {
    auto has = dyn_cast<Buffer>(operand.getType()), takes = dyn_cast<Buffer>(type);
    if (takes ? !has || has.getElement() != takes.getElement() || !has.isDense() ||
                    has.count() != static_cast<int64_t>(getCount())
              : (has && has.count() == 1 ? has.getElement() : operand.getType()) != type)
      return emitOpError() << "gives " << operand.getType() << " where " << getCallee() << " takes " << type;
  }
  for (int64_t i : getWritten())
    if (i < 0 || i >= static_cast<int64_t>(getOperands().size()))
      return emitOpError() << "names operands that it has";
  return success();
}

SmallVector<Value> InvokeOp::writes() {
  return llvm::map_to_vector(getWritten(), [&](int64_t i) { return Value(getOperands()[i]); });
}
SmallVector<Value> InvokeOp::reads() {
  return llvm::filter_to_vector(getOperands(), [](Value v) { return isa<Buffer>(v.getType()); });
}

//===- collectives -----------------------------------------------------------------------------------------------===//

SmallVector<Value> echelon::rt::positionsAround(Operation *op) {
  SmallVector<Value> positions;
  for (Block *block = op->getBlock(); block && block->getParentOp(); block = block->getParentOp()->getBlock())
    if (isa<ForOp, StagesOp>(block->getParentOp()))
      positions.insert(positions.begin(), block->getArgument(0));
  return positions;
}

int64_t CollectiveOp::messageBytes() {
  int64_t bytes = getCount() * buffer(getIn()).elementBytes();
  if (getAlgorithm().ends_with("_summands")) // two of four bytes on the way there, four on the way back
    bytes = getKind() == "all_reduce" ? bytes * 3 / 4 : bytes / 2;
  return getKind() == "all_reduce" || getKind() == "broadcast" ? bytes : bytes * getRanks();
}

/// Of a collective that keeps its tickets in rt.tickets: one for each iteration, or slot.
static LogicalResult verifyKept(CollectiveOp op) {
  auto loop = op->getParentOfType<ForOp>();
  const bool isAhead = loop && loop.ahead() == op->getBlock();
  auto slot = op.getPosition().getDefiningOp<SlotOp>();
  if (isAhead && (!slot || slot.getPosition() != op->getBlock()->getArgument(0)))
    return op.emitOpError() << "is started ahead of its iteration, and keeps its ticket at the slot of that";
  if (!isAhead && (!loop || loop.position() != op.getPosition()))
    return op.emitOpError() << "keeps its ticket at the position of the loop that it is in";
  auto kept = op.getTickets().getDefiningOp<TicketsOp>();
  const uint64_t count = isAhead ? 2 : loop.getCount();
  if (!kept || kept.getCount() != count)
    return op.emitOpError() << "keeps " << count << " tickets, which one rt.tickets has room for";
  return success();
}

LogicalResult CollectiveOp::verify() {
  if (getTickets() && getTicket())
    return emitOpError() << "has a ticket of its own or keeps it in rt.tickets, not both";
  if (getTickets() && failed(verifyKept(*this)))
    return failure();
  if (getReduction() && ech::isNarrow(buffer(getIn()).getElement()))
    return emitOpError() << "combines elements of type " << buffer(getIn()).getElement()
                         << ": what is combined travels in f32 or f64";
  if (!getRuns())
    return success();
  if (getKind() != "all_gather" && getKind() != "reduce_scatter")
    return emitOpError() << "has rows in runs, which all_gather and reduce_scatter take alone";
  if (*getRuns() < 2 || getCount() % *getRuns() != 0)
    return emitOpError() << "has rows of " << getCount() << " elements in " << *getRuns()
                         << " runs: there are two or more, equally long";
  return success();
}

Value CollectiveOp::toWaitFor() { return getTickets() ? getTickets() : getTicket(); }

/// Over the ranks of the group that the program names; all of these do the same.
std::optional<Message> CollectiveOp::messageAt(ArrayRef<int64_t>) {
  Message message;
  message.kind = getKind();
  message.axes = getAxis();
  ArrayRef<int64_t> mesh = getMesh();
  auto module = (*this)->getParentOfType<ModuleOp>();
  auto groups = module ? module->getAttrOfType<ArrayAttr>(kGroups) : ArrayAttr();
  if (auto group = (*this)->getAttrOfType<IntegerAttr>(kGroup);
      group && groups && group.getInt() < static_cast<int64_t>(groups.size()))
    mesh = cast<DenseI64ArrayAttr>(groups[group.getInt()]).asArrayRef();
  for (int64_t axis : mesh)
    message.over.push_back({axis, {}});
  message.element = buffer(getIn()).getElement();
  message.count = static_cast<int64_t>(getCount());
  message.runs = static_cast<int64_t>(getRuns().value_or(1));
  message.algorithm = getAlgorithm();
  if (getKind() != "broadcast")
    message.reduction = getReduction().value_or("");
  else if (getReduction().value_or("").getAsInteger(10, message.root))
    message.root = 0;
  message.what = getOperation();
  const int64_t ranks = static_cast<int64_t>(getRanks()), rows = message.count * ranks;
  message.read = getKind() == "reduce_scatter" || getKind() == "all_to_all" ? rows : message.count;
  message.written = getKind() == "all_gather" || getKind() == "all_to_all" ? rows : message.count;
  message.in = getIn();
  message.out = getOut();
  return message;
}

SmallVector<Value> CollectiveOp::reads() { return {getIn()}; }
SmallVector<Value> CollectiveOp::writes() { return {getOut()}; }

namespace {
/// The message of a rank with its neighbor along a mesh axis.
template <typename Op> Message messageWithNeighbor(Op op, ArrayRef<int64_t> coordinates, bool isSend) {
  const int64_t mesh = op.getMesh().front(), own = coordinates[mesh], ranks = static_cast<int64_t>(op.getRanks());
  const int64_t beside = own + static_cast<int64_t>(op.getStep());
  const int64_t other = op.getAround() ? (beside + ranks) % ranks : beside;
  Message message;
  message.side = isSend ? Message::Side::Sender : Message::Side::Receiver;
  message.kind = isSend ? "send" : "receive";
  message.axes = op.getAxis();
  message.over.push_back({mesh, {isSend ? own : other, isSend ? other : own}});
  if (auto group = op->template getAttrOfType<IntegerAttr>(kGroup))
    message.tag = group.getInt();
  message.element = buffer(op.getBuffer()).getElement();
  message.count = buffer(op.getBuffer()).count();
  message.what = op.getWhyAttr().getAsOpaquePointer();
  (isSend ? message.read : message.written) = message.count;
  (isSend ? message.in : message.out) = op.getBuffer();
  return message;
}
} // namespace
std::optional<Message> SendOp::messageAt(ArrayRef<int64_t> coordinates) {
  return messageWithNeighbor(*this, coordinates, true);
}
std::optional<Message> ReceiveOp::messageAt(ArrayRef<int64_t> coordinates) {
  return messageWithNeighbor(*this, coordinates, false);
}
SmallVector<int64_t> SendOp::readsCoordinates() { return SmallVector<int64_t>(getMesh()); }
SmallVector<int64_t> ReceiveOp::readsCoordinates() { return SmallVector<int64_t>(getMesh()); }
Value SendOp::toWaitFor() { return getTickets(); }
Value ReceiveOp::toWaitFor() { return {}; }

SmallVector<Value> SendOp::reads() { return {getBuffer()}; }
SmallVector<Value> SendOp::writes() { return {}; }
SmallVector<Value> ReceiveOp::reads() { return {}; }
SmallVector<Value> ReceiveOp::writes() { return {getBuffer()}; }

//===- attention whose keys and values go round ------------------------------------------------------------------===//

namespace {
/// What its ranks do in a call: in each hop the same to the next and from the one before, so it is one message of all.
template <typename Op> Message messageOfRing(Op op) {
  Message message;
  message.kind = op->getName().stripDialect();
  message.axes = op.getAxis();
  for (int64_t axis : op.getMesh())
    message.over.push_back({axis, {}});
  message.element = buffer(op.getK()).getElement();
  message.count = op.keyCount() + op.valueCount();
  message.algorithm = "ring";
  message.what = op.getOperation();
  return message;
}

/// Whole buffers of keys and values travel, and there is room for them.
template <typename Op> LogicalResult verifyRing(Op op, ArrayRef<std::pair<Value, int64_t>> rooms) {
  const auto ranks = static_cast<int64_t>(op.getRanks());
  if (ranks < 2 || op.getMesh().size() != 1)
    return op.emitOpError() << "goes round two ranks or more of one mesh axis";
  if (!buffer(op.getK()).isDense() || !buffer(op.getV()).isDense())
    return op.emitOpError() << "sends keys and values that are dense";
  for (auto [room, count] : rooms)
    if (buffer(room).count() != count)
      return op.emitOpError() << "has room for " << buffer(room).count() << " elements, not " << count;
  if (op.getKeyRuns().empty() || op.getKeyRuns().size() % 3 != 0)
    return op.emitOpError() << "has three numbers for each run of keys";
  if (op.getBegins().size() != (op.getCausal() ? op.getQueryRuns().size() : 0))
    return op.emitOpError() << "has a first position for each run of queries where it is causal, and none elsewhere";
  return success();
}
template <typename Op> int64_t blocksThatCome(Op op) { return std::min<int64_t>(op.getRanks() - 1, 2); }
} // namespace

int64_t RingAttentionOp::keyCount() { return buffer(getK()).count(); }
int64_t RingAttentionOp::valueCount() { return buffer(getV()).count(); }
int64_t RingAttentionGradOp::keyCount() { return buffer(getK()).count(); }
int64_t RingAttentionGradOp::valueCount() { return buffer(getV()).count(); }
std::optional<Message> RingAttentionOp::messageAt(ArrayRef<int64_t>) { return messageOfRing(*this); }
std::optional<Message> RingAttentionGradOp::messageAt(ArrayRef<int64_t>) { return messageOfRing(*this); }
Value RingAttentionOp::toWaitFor() { return {}; }
Value RingAttentionGradOp::toWaitFor() { return {}; }
LogicalResult RingAttentionOp::verify() {
  const int64_t come = blocksThatCome(*this);
  return verifyRing(*this, {{getKeys(), come * keyCount()}, {getValues(), come * valueCount()}});
}
LogicalResult RingAttentionGradOp::verify() {
  const int64_t come = blocksThatCome(*this);
  if (!buffer(getDk()).isDense() || !buffer(getDv()).isDense())
    return emitOpError() << "receives dk and dv that are dense";
  return verifyRing(*this, {{getKeys(), come * keyCount()},
                            {getValues(), come * valueCount()},
                            {getDk(), keyCount()},
                            {getDv(), valueCount()},
                            {getDkeys(), 2 * keyCount()},
                            {getDvalues(), 2 * valueCount()}});
}

LogicalResult TicketsOp::verify() {
  auto keeps = [](Operation *user) { return isa<CollectiveOp, SendOp>(user); };
  if (getCount() < 1 || llvm::count_if(getTickets().getUsers(), keeps) != 1)
    return emitOpError() << "has room for a ticket or more, which one collective keeps there";
  return success();
}

//===- reports ---------------------------------------------------------------------------------------------------===//

SmallVector<Value> ReportOp::reads() { return {getValue()}; }
SmallVector<Value> ReportOp::writes() { return {}; }
