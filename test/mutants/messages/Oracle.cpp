#include "test/mutants/messages/Oracle.h"
#include <deque>

using namespace echelon;
using namespace echelon::prove;
using namespace echelon::test;

void Pieces::add(const std::vector<Program> &programs) {
  for (const Program &program : programs)
    for (const Instruction &instruction : program.instructions)
      for (const auto *ranges : {&instruction.reads, &instruction.writes})
        for (const Range &range : *ranges)
          for (int64_t at : {range.begin, range.end})
            edges[{static_cast<int>(range.arena), at}] = 0;
}
void Pieces::repeat(const Moved &moved) {
  const int work = static_cast<int>(rt::Arena::Work);
  for (size_t before = 0; moved.by && before != edges.size();) {
    before = edges.size();
    for (const auto &[edge, piece] : std::map(edges))
      for (const int64_t by : {moved.by, -moved.by}) {
        const int64_t from = by == moved.by ? 0 : moved.by;
        if (edge.first == work && edge.second >= moved.begin + from && edge.second <= moved.end + from)
          edges[{work, edge.second + by}] = 0;
      }
  }
}
void Pieces::number() {
  size_t next = 0;
  for (auto &[edge, piece] : edges) {
    piece = next++;
    state.push_back(edge.first == static_cast<int>(rt::Arena::State));
  }
}
std::pair<size_t, size_t> Pieces::of(const Range &range) const {
  const int arena = static_cast<int>(range.arena);
  return {edges.at({arena, range.begin}), edges.at({arena, range.end})};
}

namespace {
uint64_t mix(uint64_t a, uint64_t b) {
  uint64_t x = a * 0x9E3779B97F4A7C15u + b + 0x7F4A7C15u;
  x = (x ^ (x >> 30)) * 0xBF58476D1CE4E5B9u;
  x = (x ^ (x >> 27)) * 0x94D049BB133111EBu;
  return x ^ (x >> 31);
}

class Execution {
public:
  Execution(const Ranks &ranks, const Pieces &pieces, uint64_t seed, int leaveAt);
  std::optional<std::vector<uint64_t>> run();

private:
  struct Message {
    int64_t number = -1;
    bool isDone = false, isWaited = false;
    std::optional<uint64_t> read; // what it has read, if it did so at its start
  };
  struct Rank {
    size_t at = 0;
    int leaves = 0;
    bool isLeaving = false;
    std::vector<uint64_t> memory, reported;
    std::map<const void *, std::vector<bool>> written; // pieces of a buffer of the work arena, since it was made
    std::vector<Message> messages;
    std::vector<const Instruction *> begins;                 // by message
    std::map<std::pair<int, bool>, std::deque<int>> streams; // by channel and side
    std::map<std::pair<int, bool>, int64_t> started;
  };
  using Meeting = std::vector<std::pair<int, int>>; // rank, message

  bool canStep(int rank) const;
  bool step(int rank);
  bool begin(int rank, const Instruction &instruction);
  bool meet(const Meeting &meeting);
  void arrive(int rank, std::pair<int, bool> stream);
  uint64_t digest(int rank, const Instruction &instruction) const;
  void write(int rank, const Instruction &instruction, uint64_t value);
  void mark(int rank, const Instruction &instruction, bool isWritten);
  const Start &startOf(int rank, int message) const { return all.programs[rank].starts[message]; }
  static std::pair<int, bool> streamOf(const Start &start) {
    return {start.channel, start.is.side == rt::Message::Side::Receiver};
  }

  const Ranks &all;
  const Pieces &pieces;
  Random random;
  const int leaveAt;
  std::vector<Rank> ranks;
  std::map<std::pair<int, int64_t>, Meeting> meetings;
  std::vector<Meeting> ready;
};

Execution::Execution(const Ranks &ranks_, const Pieces &pieces, uint64_t seed, int leaveAt)
    : all(ranks_), pieces(pieces), random(seed), leaveAt(leaveAt), ranks(ranks_.programs.size()) {
  for (size_t r = 0; r < ranks.size(); ++r) {
    ranks[r].messages.resize(all.programs[r].starts.size());
    ranks[r].begins.resize(all.programs[r].starts.size());
    for (size_t piece = 0; piece < pieces.size(); ++piece)
      ranks[r].memory.push_back(mix(r, piece));
  }
}

bool Execution::canStep(int r) const {
  const Rank &rank = ranks[r];
  const auto &instructions = all.programs[r].instructions;
  if (rank.isLeaving || rank.at == instructions.size())
    return false;
  const Instruction &next = instructions[rank.at];
  return next.kind != Instruction::Wait || rank.messages[next.start].isDone;
}

/// Bytes that the buffer itself has not written are not really read: ranges are larger than what is touched of them.
uint64_t Execution::digest(int rank, const Instruction &instruction) const {
  uint64_t value = 1;
  const Rank &own = ranks[rank];
  for (const Range &range : instruction.reads) {
    auto written = own.written.find(range.buffer);
    const bool isAll = range.arena != rt::Arena::Work;
    for (auto [at, end] = pieces.of(range); at < end; ++at)
      value = mix(value, isAll || (written != own.written.end() && written->second[at]) ? own.memory[at] : 0);
  }
  return value;
}
void Execution::mark(int rank, const Instruction &instruction, bool isWritten) {
  for (const Range &range : instruction.writes) {
    std::vector<bool> &written = ranks[rank].written[range.buffer];
    written.resize(pieces.size());
    for (auto [at, end] = pieces.of(range); at < end; ++at)
      written[at] = isWritten;
  }
}
void Execution::write(int rank, const Instruction &instruction, uint64_t value) {
  mark(rank, instruction, true);
  uint64_t place = 0; // within what is written: where that lies does not matter
  for (const Range &range : instruction.writes)
    for (auto [at, end] = pieces.of(range); at < end; ++at)
      ranks[rank].memory[at] = mix(value, ++place);
}

bool Execution::step(int r) {
  Rank &rank = ranks[r];
  const Instruction &instruction = all.programs[r].instructions[rank.at++];
  switch (instruction.kind) {
  case Instruction::Touch: {
    const uint64_t read = digest(r, instruction);
    write(r, instruction, mix(reinterpret_cast<uintptr_t>(instruction.op), read));
    if (mlir::isa<rt::ReportOp>(instruction.op))
      rank.reported.push_back(read);
    return true;
  }
  case Instruction::Begin:
    return begin(r, instruction);
  case Instruction::Wait:
    rank.messages[instruction.start].isWaited = true;
    return true;
  case Instruction::Leave:
    rank.isLeaving = rank.leaves++ == leaveAt;
    return true;
  case Instruction::Make:
    mark(r, instruction, false);
    return true;
  case Instruction::Look:
    return true;
  }
  return true;
}

bool Execution::begin(int r, const Instruction &instruction) {
  Rank &rank = ranks[r];
  const Start &start = startOf(r, instruction.start);
  Message &message = rank.messages[instruction.start];
  const Channel &channel = all.channels[start.channel];
  const auto stream = streamOf(start);
  if (message.number >= 0 || channel.isEdge != start.isEdge() ||
      (channel.isEdge ? channel.members[stream.second] != r : !llvm::is_contained(channel.members, r)))
    return false;
  rank.begins[instruction.start] = &instruction;
  message.number = rank.started[stream]++;
  if (random() % 2)
    message.read = digest(r, instruction);
  mark(r, instruction, true);
  std::vector<bool> isRead(pieces.size());
  for (const Range &range : instruction.reads)
    for (auto [at, end] = pieces.of(range); at < end; ++at)
      isRead[at] = true;
  for (const Range &range : instruction.writes)
    for (auto [at, end] = pieces.of(range); at < end; ++at)
      if (!isRead[at])
        rank.memory[at] = random();
  rank.streams[stream].push_back(instruction.start);
  if (rank.streams[stream].size() == 1)
    arrive(r, stream);
  return true;
}

void Execution::arrive(int r, std::pair<int, bool> stream) {
  const int message = ranks[r].streams[stream].front();
  auto at = meetings.try_emplace({stream.first, ranks[r].messages[message].number}).first;
  at->second.emplace_back(r, message);
  if (at->second.size() < all.channels[stream.first].members.size())
    return;
  ready.push_back(std::move(at->second));
  meetings.erase(at);
}

/// False: they differ.
bool Execution::meet(const Meeting &meeting) {
  const auto [first, its] = meeting.front();
  const Start &a = startOf(first, its);
  std::map<int, uint64_t> read; // by rank
  uint64_t value = mix(2, a.isEdge() ? 0 : std::hash<std::string>()(a.is.kind.str() + a.is.reduction.str()));
  for (const auto &[r, message] : meeting) {
    const Start &b = startOf(r, message);
    const rt::Message &m = a.is, &n = b.is;
    if ((!a.isEdge() && m.kind != n.kind) || m.element != n.element || m.count != n.count || m.runs != n.runs ||
        m.reduction != n.reduction || m.root != n.root || m.algorithm != n.algorithm)
      return false;
    if (n.side != rt::Message::Side::Receiver)
      read[r] = ranks[r].messages[message].read.value_or(digest(r, *ranks[r].begins[message]));
  }
  for (const auto &[r, digest] : read)
    value = mix(value, digest);
  for (const auto &[r, message] : meeting) {
    Rank &rank = ranks[r];
    write(r, *rank.begins[message], value);
    rank.messages[message].isDone = true;
    const auto stream = streamOf(startOf(r, message));
    rank.streams[stream].pop_front();
    if (!rank.streams[stream].empty())
      arrive(r, stream);
  }
  return true;
}

std::optional<std::vector<uint64_t>> Execution::run() {
  for (;;) {
    std::vector<int> steps;
    for (size_t r = 0; r < ranks.size(); ++r)
      if (canStep(static_cast<int>(r)))
        steps.push_back(static_cast<int>(r));
    if (steps.empty() && ready.empty())
      break;
    const size_t choice = random() % (steps.size() + ready.size());
    if (choice < steps.size()) {
      if (!step(steps[choice]))
        return std::nullopt;
      continue;
    }
    const Meeting meeting = ready[choice - steps.size()];
    ready.erase(ready.begin() + static_cast<std::ptrdiff_t>(choice - steps.size()));
    if (!meet(meeting))
      return std::nullopt;
  }
  std::vector<uint64_t> left;
  for (size_t r = 0; r < ranks.size(); ++r) {
    const Rank &rank = ranks[r];
    if (!rank.isLeaving && rank.at < all.programs[r].instructions.size())
      return std::nullopt;
    for (const auto &[stream, waiting] : rank.streams)
      if (!waiting.empty())
        return std::nullopt;
    left.insert(left.end(), rank.reported.begin(), rank.reported.end());
    for (size_t piece = 0; piece < pieces.size(); ++piece)
      if (pieces.isState(piece))
        left.push_back(rank.memory[piece]);
  }
  return left;
}
} // namespace

std::optional<std::vector<uint64_t>> test::execute(const Ranks &ranks, const Pieces &pieces, uint64_t seed,
                                                   int leaveAt) {
  return Execution(ranks, pieces, seed, leaveAt).run();
}
