#include "test/mutants/messages/Mutate.h"
#include <algorithm>

using namespace mlir;
using namespace echelon;
using namespace echelon::prove;
using namespace echelon::test;

namespace {
class Mutant {
public:
  Mutant(Ranks &ranks, Random &random, int rank) : ranks(ranks), random(random) {
    program = &ranks.programs[rank < 0 ? below(ranks.programs.size()) : size_t(rank)];
  }
  bool make(StringRef how);

private:
  using Place = size_t;

  size_t below(size_t count) { return std::uniform_int_distribution<size_t>(0, count - 1)(random); }
  std::vector<Place> all(Instruction::Kind kind) const {
    std::vector<Place> places;
    for (Place i = 0; i < program->instructions.size(); ++i)
      if (program->instructions[i].kind == kind)
        places.push_back(i);
    return places;
  }
  Start &startAt(Place place) { return program->starts[program->instructions[place].start]; }
  void erase(Place place) { program->instructions.erase(program->instructions.begin() + std::ptrdiff_t(place)); }
  void shift(Place from, Place to);
  bool drop(Place begin);
  bool twice(Place begin);
  bool otherGroup(Place begin);
  bool exchange(Place begin);
  bool place();

  Ranks &ranks;
  Random &random;
  Program *program;
};

/// One instruction to another place; the others keep their order.
void Mutant::shift(Place from, Place to) {
  auto at = program->instructions.begin();
  if (from < to)
    std::rotate(at + std::ptrdiff_t(from), at + std::ptrdiff_t(from) + 1, at + std::ptrdiff_t(to) + 1);
  else
    std::rotate(at + std::ptrdiff_t(to), at + std::ptrdiff_t(from), at + std::ptrdiff_t(from) + 1);
}

bool Mutant::drop(Place begin) {
  const int start = program->instructions[begin].start;
  llvm::erase_if(program->instructions, [&](const Instruction &i) { return i.start == start; });
  return true;
}

bool Mutant::twice(Place begin) {
  Instruction again = program->instructions[begin];
  program->starts.push_back(startAt(begin));
  again.start = static_cast<int>(program->starts.size()) - 1;
  program->instructions.insert(program->instructions.begin() + std::ptrdiff_t(begin) + 1, again);
  program->instructions.push_back({Instruction::Wait, again.op, again.start, {}, {}});
  return true;
}

bool Mutant::otherGroup(Place begin) {
  Start &start = startAt(begin);
  const int other = static_cast<int>(below(ranks.channels.size()));
  const bool isOther = other != start.channel && ranks.channels[other].isEdge == start.isEdge();
  start.channel = isOther ? other : start.channel;
  return isOther;
}

/// Two messages of one channel and size: each with the buffers of the other.
bool Mutant::exchange(Place begin) {
  std::vector<Place> like;
  const Start &own = startAt(begin);
  for (Place other : all(Instruction::Begin)) {
    const Start &its = startAt(other);
    if (other != begin && its.channel == own.channel && its.is.kind == own.is.kind && its.is.count == own.is.count)
      like.push_back(other);
  }
  if (like.empty())
    return false;
  const Place other = like[below(like.size())];
  Instruction &a = program->instructions[begin], &b = program->instructions[other];
  std::swap(a.reads, b.reads);
  std::swap(a.writes, b.writes);
  std::swap(startAt(begin).is.what, startAt(other).is.what);
  std::swap(startAt(begin).label, startAt(other).label);
  return true;
}

/// A buffer of the work arena lies on, or near, another one, on all ranks.
bool Mutant::place() {
  std::map<const void *, Range> buffers;
  for (const Instruction &instruction : program->instructions)
    for (const auto *list : {&instruction.reads, &instruction.writes})
      for (const Range &range : *list)
        if (range.arena == rt::Arena::Work)
          buffers.emplace(range.buffer, range);
  if (buffers.size() < 2)
    return false;
  const Range moved = std::next(buffers.begin(), std::ptrdiff_t(below(buffers.size())))->second,
              to = std::next(buffers.begin(), std::ptrdiff_t(below(buffers.size())))->second;
  const int64_t by = to.wholeBegin - moved.wholeBegin;
  ranks.moved = {moved.wholeBegin, moved.wholeEnd, by, ", " + moved.name() + " onto " + to.name()};
  for (Program &one : ranks.programs)
    for (Instruction &instruction : one.instructions)
      for (auto *list : {&instruction.reads, &instruction.writes})
        for (Range &range : *list)
          if (range.buffer == moved.buffer)
            for (int64_t *at : {&range.begin, &range.end, &range.wholeBegin, &range.wholeEnd})
              *at += by;
  return by != 0;
}

bool Mutant::make(StringRef how) {
  if (how == "ranks") {
    Program &other = ranks.programs[below(ranks.programs.size())];
    std::swap(program->instructions, other.instructions);
    std::swap(program->starts, other.starts);
    return &other != program;
  }
  if (how == "place")
    return place();
  const std::vector<Place> begins = all(Instruction::Begin), waits = all(Instruction::Wait);
  if (begins.empty() || waits.empty())
    return false;
  const Place begin = begins[below(begins.size())], wait = waits[below(waits.size())];
  Start &start = startAt(begin);
  if (how == "drop")
    return drop(begin);
  if (how == "double")
    return twice(begin);
  if (how == "move" || how == "late") {
    const Place from = how == "late" || random() % 2 ? wait : begin, last = program->instructions.size() - 1;
    const Place by = how == "late" ? last : Place(1) << below(4);
    const Place to = how == "move" && random() % 2 ? from - std::min(from, by) : std::min(last, from + by);
    shift(from, to);
    return from != to;
  }
  if (how == "swap") {
    const Place other = begins[below(begins.size())];
    std::swap(program->instructions[begin], program->instructions[other]);
    return begin != other;
  }
  if (how == "without") {
    erase(wait);
    return true;
  }
  if (how == "group")
    return otherGroup(begin);
  if (how == "exchange")
    return exchange(begin);
  if (how == "resize")
    return start.is.count += random() % 2 ? 1 : -1, true;
  if (how == "type")
    return start.is.element = Float64Type::get(start.op->getContext()), true;
  if (start.isEdge()) {
    if (how != "tag")
      return false;
    return otherGroup(begin);
  }
  if (how == "kind")
    return start.is.kind = start.is.kind == "all_gather" ? "all_reduce" : "all_gather", true;
  if (how == "algorithm")
    return start.is.algorithm = start.is.algorithm == "ring" ? "tree" : "ring", true;
  return false;
}
} // namespace

bool test::mutate(Ranks &ranks, const std::string &how, Random &random, int rank) {
  return Mutant(ranks, random, rank).make(how);
}
