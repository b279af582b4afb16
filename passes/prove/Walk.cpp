#include "passes/prove/Walk.h"
#include "mlir/IR/SymbolTable.h"
#include "runtime/program/Turns.h"
#include "llvm/ADT/TypeSwitch.h"
#include <array>
#include <set>

using namespace mlir;
using namespace echelon;
using namespace echelon::prove;

namespace {
std::string nameOfAlloc(const void *alloc) {
  auto *op = static_cast<Operation *>(const_cast<void *>(alloc));
  if (auto name = op->getAttrOfType<StringAttr>(rt::kName))
    return name.str();
  const StringRef name = rt::nameOf(op->getLoc());
  return name.empty() ? "a buffer" : name.str();
}
std::string nameOfStored(const void *name) { return StringAttr::getFromOpaquePointer(name).str(); }
} // namespace

Verdict Walk::run(rt::FunctionOp function) {
  program.rank = parties.firstRank(party);
  return block(function.getBody().front(), true);
}

Verdict Walk::block(Block &block, bool touches) {
  for (Operation &op : block)
    if (Verdict refused = operation(op, touches))
      return refused;
  return std::nullopt;
}

bool Walk::isFollowed(rt::ForOp loop) {
  auto [known, isNew] = followed.try_emplace(loop, false);
  if (!isNew)
    return known->second;
  const WalkResult found = loop.walk([&](rt::Communicates op) {
    Value kept = op.toWaitFor();
    const bool isOutside = kept && !loop->isAncestor(kept.getDefiningOp());
    return isOutside || parties.size() > 1 ? WalkResult::interrupt() : WalkResult::advance();
  });
  return known->second = found.wasInterrupted();
}

/// The first message under way of those from the start `before` on; null: there is none.
const Start *Walk::startedSince(size_t before) const {
  size_t first = program.starts.size();
  for (const auto &[ticket, kept] : underWay)
    for (const auto &[at, start] : kept)
      if (static_cast<size_t>(start) >= before)
        first = std::min(first, static_cast<size_t>(start));
  return first < program.starts.size() ? &program.starts[first] : nullptr;
}

Verdict Walk::loop(rt::ForOp loop, bool touches) {
  const bool isAll = isFollowed(loop), isOpen = loop.getCount() == 0;
  if (!touches && !isAll)
    return std::nullopt;
  int64_t count = isOpen ? 2 : static_cast<int64_t>(loop.getCount());
  if (loop.getOwn()) {
    std::optional<int64_t> own = numberOf(loop.getOwn());
    if (!own || *own < 0 || *own > count)
      return Refusal{loop, "how many iterations a rank does does not follow from its coordinates", {}};
    count = *own;
  }
  const size_t before = program.starts.size();
  trips[loop] = count;
  if (Block *ahead = count > 0 ? loop.ahead() : nullptr) {
    positions[ahead->getArgument(0)] = loop.getReverse() ? count - 1 : 0;
    if (Verdict refused = block(*ahead, touches))
      return refused;
  }
  for (int64_t i = 0; i < count; ++i) {
    const bool isNearEnd = i < 2 || i >= count - 2;
    if (!isAll && !isNearEnd)
      continue;
    positions[loop.position()] = loop.getReverse() ? count - 1 - i : i;
    if (Verdict refused = block(loop.getBody().front(), touches && isNearEnd))
      return refused;
    if (const Start *left = isOpen ? startedSince(before) : nullptr)
      return Refusal{left->op,
                     shortly(*left) +
                         " is not waited for in the iteration that starts it, of a loop that runs until data "
                         "ends",
                     {}};
  }
  return std::nullopt;
}

Verdict Walk::next(rt::ForOp loop, bool touches) {
  const int64_t next = positions.lookup(loop.position()) + (loop.getReverse() ? -1 : 1);
  if (next < 0 || next >= trips.lookup(loop))
    return std::nullopt;
  positions[loop.ahead()->getArgument(0)] = next;
  return block(*loop.ahead(), touches);
}

/// The turns of this rank's stage, as the program takes them. Where one touches memory is linear in its micro batch and
/// slot, which no two have that are in use; what is under way then follows from the turns before it. So touches are
/// followed once for each row of such turns, messages always.
Verdict Walk::stages(rt::StagesOp stages, bool touches) {
  const auto mesh = static_cast<int64_t>(stages.getMesh()), micro = static_cast<int64_t>(stages.getCount());
  const int64_t stage = parties.coordinates(party)[mesh];
  const runtime::StageOrder *schedule = runtime::stageOrderNamed(stages.getSchedule());
  if (!schedule)
    return Refusal{stages, "rt.stages has an order that no program knows, " + stages.getSchedule().str(), {}};
  Region *regions[] = {&stages.getForward(), &stages.getBackward(), &stages.getWeights()};
  const auto chunks = static_cast<int64_t>(stages.getChunks());
  std::set<std::pair<int64_t, int64_t>> begun;
  constexpr size_t kRow = 4; // a message is waited for before the next one from its buffer
  std::vector<std::array<int64_t, 3>> row;
  std::set<std::vector<std::array<int64_t, 3>>> rows;
  for (const runtime::Turn &turn : schedule->turns(stage, parties.sizeOf(mesh), micro, chunks)) {
    if (turn.pass == runtime::Turn::Forward)
      begun.insert({turn.micro, turn.chunk});
    else if (!begun.count({turn.micro, turn.chunk}))
      return Refusal{stages,
                     stages.getSchedule().str() + " goes back through micro batch " + std::to_string(turn.micro) +
                         " before it has gone forward",
                     {}};
    if (regions[turn.pass]->empty())
      continue; // an evaluation has forward passes alone
    if (turn.slot >= static_cast<int64_t>(stages.getSlots()) && !stages.getBackward().empty())
      return Refusal{stages, "rt.stages has fewer slots than " + stages.getSchedule().str() + " takes", {}};
    Block &body = regions[turn.pass]->front();
    const int64_t numbers[] = {turn.micro, turn.slot, turn.chunk, turn.buffer};
    for (auto [argument, number] : llvm::zip(body.getArguments(), numbers)) // of one chunk the first two
      positions[argument] = number;
    row.push_back({turn.pass, turn.chunk, turn.buffer});
    if (row.size() > kRow * size_t(chunks))
      row.erase(row.begin());
    const bool isNew = rows.insert(row).second;
    if (Verdict refused = block(body, touches && isNew))
      return refused;
  }
  return std::nullopt;
}

Verdict Walk::operation(Operation &op, bool touches) {
  if (auto at = dyn_cast<rt::AtOp>(op)) {
    const auto mesh = static_cast<int64_t>(at.getMesh());
    const int64_t chunk = at.getTurn() ? positions.lookup(at.getTurn()) : 0;
    const bool isThere = at.isAt(parties.coordinates(party)[mesh], chunk, parties.sizeOf(mesh));
    return isThere ? block(at.getBody().front(), touches) : std::nullopt;
  }
  if (auto stages = dyn_cast<rt::StagesOp>(op))
    return this->stages(stages, touches);
  if (auto loop = dyn_cast<rt::ForOp>(op))
    return this->loop(loop, touches);
  if (isa<rt::NextOp>(op))
    return next(cast<rt::ForOp>(op.getParentOp()), touches);
  if (auto message = dyn_cast<rt::Communicates>(op))
    return start(message, touches);
  if (auto wait = dyn_cast<rt::WaitOp>(op))
    return this->wait(wait);
  if (touches)
    touch(op);
  if (auto report = dyn_cast<rt::ReportOp>(op);
      report && report.getKind() == ech::stringifyReportKind(ech::ReportKind::Norm))
    program.instructions.push_back({Instruction::Leave, &op, -1, {}, {}});
  if (auto progress = dyn_cast<rt::ProgressOp>(op); progress && progress.getLooks())
    program.instructions.push_back({Instruction::Look, &op, -1, {}, {}});
  return std::nullopt;
}

void Walk::touch(Operation &op) {
  if (auto alloc = dyn_cast<rt::AllocOp>(op)) {
    if (std::optional<Range> range = rangeOf(alloc.getBuffer()); range && range->arena == rt::Arena::Work)
      program.instructions.push_back({Instruction::Make, &op, -1, {}, {*range}});
    return;
  }
  auto touches = dyn_cast<rt::Touches>(op);
  if (!touches)
    return;
  Instruction made{Instruction::Touch, &op, -1, {}, {}};
  for (Value v : touches.reads())
    addRange(v, made.reads);
  for (Value v : touches.writes())
    addRange(v, made.writes);
  if (!made.reads.empty() || !made.writes.empty())
    program.instructions.push_back(std::move(made));
}

/// Behind which of all chunks, in the order in which a micro batch goes through them, a message of stages goes; nothing
/// where a stage has one.
std::optional<int64_t> Walk::edgeOf(Operation *op) const {
  auto stages = op->getParentOfType<rt::StagesOp>();
  if (!stages || stages.getChunks() == 1 || !isa<rt::SendOp, rt::ReceiveOp>(op))
    return std::nullopt;
  const auto mesh = static_cast<int64_t>(stages.getMesh());
  Block *turn = op->getBlock();
  while (turn->getParentOp() != stages)
    turn = turn->getParentOp()->getBlock();
  const bool isBefore = op->getAttrOfType<IntegerAttr>("step").getInt() < 0;
  return positions.lookup(turn->getArgument(2)) * parties.sizeOf(mesh) + parties.coordinates(party)[mesh] - isBefore;
}

Verdict Walk::start(rt::Communicates op, bool touches) {
  std::optional<rt::Message> message = op.messageAt(parties.coordinates(party));
  if (!message)
    return std::nullopt;
  Start made;
  made.is = *message;
  made.op = op;
  for (Value position : op.toldApartBy())
    made.label.push_back(positions.lookup(position));
  if (std::optional<int64_t> edge = edgeOf(op))
    made.label.push_back(*edge);
  std::optional<int> channel = parties.channelOf(*message, party, channels);
  if (!channel)
    return Refusal{
        op, "rank " + std::to_string(program.rank) + " has " + described(made) + ", and is none of its ranks", {}};
  made.channel = *channel;
  for (auto [buffer, elements, what] :
       {std::tuple(message->in, message->read, "reads"), {message->out, message->written, "writes"}})
    if (buffer && rt::buffer(buffer).count() != elements)
      return Refusal{op,
                     described(made) + " " + what + " " + std::to_string(elements) + " elements of a buffer of " +
                         std::to_string(rt::buffer(buffer).count()),
                     {}};
  const int index = static_cast<int>(program.starts.size());
  program.starts.push_back(made);
  Instruction begin{Instruction::Begin, op, index, {}, {}, !touches};
  auto itsBuffers = cast<rt::Touches>(op.getOperation());
  for (Value v : itsBuffers.reads())
    addRange(v, begin.reads);
  for (Value v : itsBuffers.writes())
    addRange(v, begin.writes);
  program.instructions.push_back(std::move(begin));
  auto send = dyn_cast<rt::SendOp>(op.getOperation());
  auto collective = dyn_cast<rt::CollectiveOp>(op.getOperation());
  Value place = send ? send.getPosition() : collective ? collective.getPosition() : Value();
  const int64_t at = place ? *numberOf(place) : -1;
  if (op.isStarted())
    underWay[op.toWaitFor()].push_back({at, index});
  else
    program.instructions.push_back({Instruction::Wait, op, index, {}, {}});
  return std::nullopt;
}

Verdict Walk::wait(rt::WaitOp op) {
  // Where a rank takes no part in a message, there is nothing to wait for.
  auto &kept = underWay[op.getTicket()];
  llvm::erase_if(kept, [&](const auto &each) {
    if (op.getPosition() && numberOf(op.getPosition()) != each.first)
      return false;
    program.instructions.push_back({Instruction::Wait, op, each.second, {}, {}});
    return true;
  });
  return std::nullopt;
}

void Walk::addRange(Value buffer, SmallVectorImpl<Range> &ranges) const {
  if (!buffer)
    return;
  if (std::optional<Range> range = rangeOf(buffer))
    ranges.push_back(*range);
}

/// A position, its slot, or a number of a table, by the coordinates that tell ranks apart and the chunk of a turn.
std::optional<int64_t> Walk::numberOf(Value index) const {
  auto known = [&](Value position) -> std::optional<int64_t> {
    auto found = positions.find(position);
    return found == positions.end() ? std::nullopt : std::optional(found->second);
  };
  if (auto slot = index.getDefiningOp<rt::SlotOp>()) {
    const std::optional<int64_t> position = known(slot.getPosition());
    return position ? std::optional(*position % 2) : std::nullopt;
  }
  auto offset = index.getDefiningOp<rt::OffsetOp>();
  if (!offset || !offset.getTable())
    return known(index);
  const SmallVector<int64_t> coordinates = parties.coordinates(party);
  int64_t place = 0;
  for (auto [axis, size] : llvm::zip(offset.getMesh(), *offset.getSizes())) {
    if (coordinates[axis] < 0)
      return std::nullopt;
    place = place * size + coordinates[axis];
  }
  const std::optional<int64_t> turn = offset.getTurn() ? known(offset.getTurn()) : 0;
  const std::optional<int64_t> position = offset.getPosition() ? known(offset.getPosition()) : 0;
  if (!turn || !position)
    return std::nullopt;
  if (offset.getTurn())
    place += *turn * static_cast<int64_t>(*offset.getPerChunk());
  return offset.getPlus() + (*offset.getTable())[place] + *position;
}

/// Where a buffer lies at the positions of the moment; all of the memory that it is part of where that is not known;
/// nothing of rows that a function is given, and before arenas are planned.
std::optional<Range> Walk::rangeOf(Value buffer) const {
  rt::AllocOp alloc = rt::allocOf(buffer);
  if (!alloc || !alloc.getOffset())
    return std::nullopt;
  const auto start = static_cast<int64_t>(*alloc.getOffset());
  const int64_t end = start + rt::buffer(alloc).bytes();
  Range range{alloc.getArena(), start, end, alloc.getOperation(), start, end, nameOfAlloc};
  if (auto of = alloc.getOfAttr()) {
    range.buffer = of.getAttr().getAsOpaquePointer();
    range.nameOf = nameOfStored;
  }
  const int64_t bytes = rt::buffer(buffer).elementBytes();
  int64_t first = 0;
  Value v = buffer;
  while (auto view = v.getDefiningOp<rt::ViewOp>()) {
    first += static_cast<int64_t>(view.getOffset());
    for (auto [index, factor] : llvm::zip(view.getIndices(), view.getFactors())) {
      std::optional<int64_t> position = numberOf(index);
      if (!position)
        return range;
      first += *position * factor;
    }
    v = view.getBase();
  }
  int64_t last = first;
  for (auto [axis, stride] : llvm::zip(rt::buffer(buffer).getAxes(), rt::buffer(buffer).getStrides())) {
    const int64_t reach = (axis.size - 1) * stride;
    (reach < 0 ? first : last) += reach;
  }
  range.begin = start + first * bytes;
  range.end = start + (last + 1) * bytes;
  return range;
}
