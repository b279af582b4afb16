#include "passes/prove/Alone.h"
#include "ir/ech/SourcePlace.h"

using namespace mlir;
using namespace echelon;
using namespace echelon::prove;

namespace {
std::string named(Operation *op) {
  const std::string place = ech::sourcePlace(op->getLoc());
  return op->getName().getStringRef().str() + (place.empty() ? "" : " (" + place + ")");
}

/// Whose content bytes of the work arena hold. Of a buffer that is written part by part, the first part stands for all:
/// parts of it may be written in an order that places do not tell.
class Contents {
public:
  void make(const Range &range);
  Verdict read(const Instruction &by) const;
  void write(const Instruction &by);

private:
  struct Piece {
    int64_t end;
    const void *buffer;
    const Range *range;
    Operation *writer;
  };
  std::map<int64_t, Piece> pieces;    // by begin, apart
  llvm::DenseSet<const void *> begun; // buffers that have been written since they were made
};

/// Where pieces that end behind a byte begin.
template <typename Pieces> auto firstBehind(Pieces &pieces, int64_t byte) {
  auto at = pieces.upper_bound(byte);
  return at != pieces.begin() && std::prev(at)->second.end > byte ? std::prev(at) : at;
}

void Contents::make(const Range &range) {
  begun.erase(range.buffer);
  auto at = firstBehind(pieces, range.wholeBegin);
  while (at != pieces.end() && at->first < range.wholeEnd)
    at = at->second.buffer == range.buffer ? pieces.erase(at) : std::next(at);
}

Verdict Contents::read(const Instruction &by) const {
  for (const Range &range : by.reads) {
    if (range.arena != rt::Arena::Work)
      continue;
    auto at = firstBehind(pieces, range.wholeBegin);
    int64_t known = range.wholeBegin;
    for (; at != pieces.end() && at->first < range.wholeEnd; ++at) {
      if (at->second.buffer != range.buffer)
        return Refusal{by.op,
                       named(by.op) + " reads " + range.name() + ", whose bytes hold " + at->second.range->name() +
                           ": two buffers have one place",
                       {{at->second.writer, "it is written here"}}};
      if (at->first > known)
        break;
      known = at->second.end;
    }
    if (known < range.wholeEnd)
      return Refusal{by.op, named(by.op) + " reads " + range.name() + ", which nothing has written", {}};
  }
  return std::nullopt;
}

void Contents::write(const Instruction &by) {
  for (const Range &range : by.writes) {
    if (range.arena != rt::Arena::Work)
      continue;
    const bool isFirst = begun.insert(range.buffer).second;
    const int64_t begin = isFirst ? range.wholeBegin : range.begin, end = isFirst ? range.wholeEnd : range.end;
    auto at = firstBehind(pieces, begin);
    while (at != pieces.end() && at->first < end) {
      const auto [from, piece] = *at;
      at = pieces.erase(at);
      if (from < begin)
        pieces[from] = {begin, piece.buffer, piece.range, piece.writer};
      if (piece.end > end)
        at = pieces.emplace(end, piece).first;
    }
    pieces[begin] = {end, range.buffer, &range, by.op};
  }
}

class Check {
public:
  Check(const Program &program, const Between &between)
      : program(program), between(between), begins(program.starts.size(), nullptr) {}
  Verdict run();

private:
  Verdict begin(const Instruction &instruction);
  Verdict wait(const Instruction &instruction);
  Verdict look(const Instruction &instruction) const;
  Verdict touch(const Instruction &instruction, ArrayRef<Range> ranges, bool writes) const;

  const Program &program;
  const Between &between;
  std::vector<const Instruction *> begins;   // of each message, once it is started
  std::vector<const Instruction *> underWay; // in order
  Contents contents;
};

Verdict Check::run() {
  for (const Instruction &instruction : program.instructions) {
    if (instruction.kind == Instruction::Make) {
      contents.make(instruction.writes.front());
      continue;
    }
    Verdict refused = touch(instruction, instruction.reads, false);
    if (!refused)
      refused = touch(instruction, instruction.writes, true);
    if (!refused && !instruction.isAmid) {
      refused = contents.read(instruction);
      contents.write(instruction);
    }
    if (!refused && instruction.kind == Instruction::Begin)
      refused = begin(instruction);
    if (!refused && instruction.kind == Instruction::Wait)
      refused = wait(instruction);
    if (!refused && instruction.kind == Instruction::Look)
      refused = look(instruction);
    if (refused)
      return refused;
  }
  if (underWay.empty())
    return std::nullopt;
  const Start &left = program.starts[underWay.front()->start];
  return Refusal{left.op, shortly(left) + " is started and never waited for", {}};
}

Verdict Check::begin(const Instruction &instruction) {
  const Instruction *&known = begins[instruction.start];
  if (known)
    return Refusal{instruction.op, shortly(program.starts[instruction.start]) + " is started twice", {}};
  known = &instruction;
  underWay.push_back(&instruction);
  return std::nullopt;
}

Verdict Check::wait(const Instruction &instruction) {
  auto at = llvm::find(underWay, begins[instruction.start]);
  if (!begins[instruction.start] || at == underWay.end())
    return Refusal{instruction.op,
                   "rank " + std::to_string(program.rank) + " waits for " + shortly(program.starts[instruction.start]) +
                       ", which is not under way",
                   {}};
  underWay.erase(at);
  return std::nullopt;
}

Verdict Check::look(const Instruction &instruction) const {
  if (between.leaves && !underWay.empty())
    return Refusal{instruction.op,
                   shortly(program.starts[underWay.front()->start]) + " is under way where a worker may leave its work",
                   {{underWay.front()->op, "it is started here"}}};
  Verdict refused = touch(instruction, between.reads, false);
  return refused ? refused : touch(instruction, between.writes, true);
}

Verdict Check::touch(const Instruction &instruction, ArrayRef<Range> ranges, bool writes) const {
  for (const Instruction *other : underWay) {
    if (instruction.kind == Instruction::Begin && instruction.start == other->start)
      continue;
    for (const Range &range : ranges) {
      auto meets = [&](const Range &its) { return range.overlaps(its); };
      const bool isWritten = llvm::any_of(other->writes, meets), isRead = llvm::any_of(other->reads, meets);
      if (!isWritten && !(writes && isRead))
        continue;
      return Refusal{instruction.op,
                     named(instruction.op) + (writes ? " writes" : " reads") + " what " +
                         shortly(program.starts[other->start]) + (isWritten ? " writes" : " reads") +
                         " at the same time: no rt.wait orders them",
                     {{other->op, "it is started here"}}};
    }
  }
  return std::nullopt;
}
} // namespace

Verdict prove::checkAlone(const Program &program, const Between &between) { return Check(program, between).run(); }
