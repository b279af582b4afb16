#include "passes/prove/Meeting.h"
#include "llvm/ADT/Hashing.h"
#include <deque>

using namespace mlir;
using namespace echelon;
using namespace echelon::prove;

namespace {
class Run {
public:
  Run(ArrayRef<Program> programs, const Channels &channels);
  Verdict run();

private:
  struct Arrival {
    int party, start;
  };
  /// Messages of one channel that a party has started, and has waited for.
  struct Side {
    int64_t started = 0;
    llvm::hash_code waits = llvm::hash_code(0); // which ones it has waited for, in order
    std::deque<int> underWay;                   // starts
  };
  struct Place {
    int64_t number = -1;                        // on its channel; -1: not started
    llvm::hash_code waits = llvm::hash_code(0); // of its channel, before it
    bool isDone = false;
  };
  struct Party {
    size_t at = 0; // the next instruction
    bool isAsleep = false;
    std::vector<Place> places;              // by start
    std::map<int, std::deque<int>> streams; // starts that are not done
    std::map<int, Side> sides;              // by channel
  };

  Verdict goOn(int party);
  Verdict begin(int party, const Instruction &instruction);
  bool hasRoom(int party, const Instruction &instruction);
  Verdict arrive(int party, int stream);
  Verdict compare(const Arrival &a, const Arrival &b) const;
  Verdict member(const Arrival &arrival) const;
  Verdict leaves() const;
  Verdict stuck() const;
  int blocker(int party, const Instruction &at) const;
  Verdict orders() const;
  Verdict differ(const Arrival &a, const Arrival &b) const;

  const Start &startOf(const Arrival &arrival) const { return programs[arrival.party].starts[arrival.start]; }
  int streamOf(const Start &start) const { return start.isEdge() ? start.channel : -1; }
  std::string rank(int party) const { return std::to_string(programs[party].rank); }

  ArrayRef<Program> programs;
  const Channels &channels;
  std::vector<Party> parties;
  std::map<std::pair<int, int64_t>, SmallVector<Arrival, 4>> meetings; // by channel and number
  std::deque<int> ready;
};

Run::Run(ArrayRef<Program> programs, const Channels &channels)
    : programs(programs), channels(channels), parties(programs.size()) {
  for (auto [party, program] : llvm::zip(parties, programs))
    party.places.resize(program.starts.size());
  for (size_t party = 0; party < programs.size(); ++party)
    ready.push_back(static_cast<int>(party));
}

Verdict Run::run() {
  if (Verdict refused = leaves())
    return refused;
  while (!ready.empty()) {
    const int party = ready.front();
    ready.pop_front();
    if (Verdict refused = goOn(party))
      return refused;
  }
  if (Verdict refused = stuck())
    return refused;
  return orders();
}

/// Runs a party until it ends, or has to wait.
Verdict Run::goOn(int party) {
  Party &own = parties[party];
  const auto &instructions = programs[party].instructions;
  for (; own.at < instructions.size(); ++own.at) {
    const Instruction &instruction = instructions[own.at];
    const int start = instruction.start;
    if (instruction.kind == Instruction::Begin) {
      if (!hasRoom(party, instruction)) {
        own.isAsleep = true;
        return std::nullopt;
      }
      if (Verdict refused = begin(party, instruction))
        return refused;
    } else if (instruction.kind == Instruction::Wait) {
      if (!own.places[start].isDone) {
        own.isAsleep = true;
        return std::nullopt;
      }
      Side &side = own.sides[programs[party].starts[start].channel];
      side.waits = llvm::hash_combine(side.waits, own.places[start].number);
    }
  }
  return std::nullopt;
}

bool Run::hasRoom(int party, const Instruction &instruction) {
  Party &own = parties[party];
  const Start &start = programs[party].starts[instruction.start];
  std::deque<int> &underWay = own.sides[start.channel].underWay;
  while (!underWay.empty() && own.places[underWay.front()].isDone)
    underWay.pop_front();
  return start.isEdge() || underWay.size() < kRoom;
}

Verdict Run::begin(int party, const Instruction &instruction) {
  Party &own = parties[party];
  const int index = instruction.start;
  const Start &start = programs[party].starts[index];
  if (Verdict refused = member({party, index}))
    return refused;
  Side &side = own.sides[start.channel];
  own.places[index] = {side.started++, side.waits, false};
  side.underWay.push_back(index);
  std::deque<int> &stream = own.streams[streamOf(start)];
  stream.push_back(index);
  return stream.size() == 1 ? arrive(party, streamOf(start)) : std::nullopt;
}

Verdict Run::member(const Arrival &arrival) const {
  const Start &start = startOf(arrival);
  const Channel &channel = channels[start.channel];
  const size_t side = start.is.side == rt::Message::Side::Receiver;
  if (channel.isEdge == start.isEdge() &&
      (channel.isEdge ? channel.members[side] == arrival.party : llvm::is_contained(channel.members, arrival.party)))
    return std::nullopt;
  return Refusal{start.op, "rank " + rank(arrival.party) + " has " + described(start) + ", which is not its part", {}};
}

/// The heads of streams arrive, from this one on, as long as that lets others arrive.
Verdict Run::arrive(int party, int stream) {
  SmallVector<std::pair<int, int>> open = {{party, stream}};
  while (!open.empty()) {
    auto [who, where] = open.pop_back_val();
    std::deque<int> &waiting = parties[who].streams[where];
    if (waiting.empty())
      continue;
    const Arrival arrival{who, waiting.front()};
    const Start &start = startOf(arrival);
    auto at = meetings.try_emplace({start.channel, parties[who].places[arrival.start].number}).first;
    SmallVector<Arrival, 4> &met = at->second;
    if (!met.empty())
      if (Verdict refused = compare(met.front(), arrival))
        return refused;
    met.push_back(arrival);
    if (met.size() < channels[start.channel].members.size())
      continue;
    for (const Arrival &one : met) {
      Party &its = parties[one.party];
      its.places[one.start].isDone = true;
      its.streams[streamOf(startOf(one))].pop_front();
      open.push_back({one.party, streamOf(startOf(one))});
      if (std::exchange(its.isAsleep, false))
        ready.push_back(one.party);
    }
    meetings.erase(at);
  }
  return std::nullopt;
}

Verdict Run::differ(const Arrival &a, const Arrival &b) const {
  const bool isAFirst = programs[a.party].rank <= programs[b.party].rank;
  const Arrival &first = isAFirst ? a : b, &second = isAFirst ? b : a;
  return Refusal{startOf(first).op,
                 "ranks " + rank(first.party) + " and " + rank(second.party) + " differ: " + rank(first.party) +
                     " has " + described(startOf(first)) + ", " + rank(second.party) + " has " +
                     described(startOf(second)),
                 {{startOf(first).op, "rank " + rank(first.party) + " is here"},
                  {startOf(second).op, "rank " + rank(second.party) + " is here"}}};
}

Verdict Run::compare(const Arrival &a, const Arrival &b) const {
  const Start &x = startOf(a), &y = startOf(b);
  const rt::Message &m = x.is, &n = y.is;
  const bool isSame = (x.isEdge() || m.kind == n.kind) && m.element == n.element && m.count == n.count &&
                      m.runs == n.runs && m.reduction == n.reduction && m.root == n.root &&
                      m.algorithm == n.algorithm && x.hasLabelOf(y);
  if (!isSame)
    return differ(a, b);
  if (x.isEdge() || parties[a.party].places[a.start].waits == parties[b.party].places[b.start].waits)
    return std::nullopt;
  return Refusal{x.op,
                 "ranks " + rank(a.party) + " and " + rank(b.party) + " wait for messages over " + m.axes.str() +
                     " in two orders before " + shortly(x),
                 {}};
}

Verdict Run::orders() const {
  for (size_t channel = 0; channel < channels.size(); ++channel) {
    const Channel &its = channels[static_cast<int>(channel)];
    auto waits = [&](int party) {
      auto side = parties[party].sides.find(static_cast<int>(channel));
      return side == parties[party].sides.end() ? llvm::hash_code(0) : side->second.waits;
    };
    for (int party : its.members) {
      if (its.isEdge || waits(party) == waits(its.members.front()))
        continue;
      const Start &last = *llvm::find_if(programs[party].starts,
                                         [&](const Start &s) { return s.channel == static_cast<int>(channel); });
      return Refusal{last.op,
                     "ranks " + rank(its.members.front()) + " and " + rank(party) + " wait for messages over " +
                         last.is.axes.str() + " in two orders",
                     {}};
    }
  }
  return std::nullopt;
}

/// Where all ranks leave the step, each waits for what it has started: the same on all of a channel.
Verdict Run::leaves() const {
  using Counts = std::map<int, int64_t>; // messages started so far, by channel
  std::vector<std::vector<std::pair<Operation *, Counts>>> all(programs.size());
  for (size_t party = 0; party < programs.size(); ++party) {
    Counts now;
    for (const Instruction &instruction : programs[party].instructions)
      if (instruction.kind == Instruction::Begin)
        ++now[programs[party].starts[instruction.start].channel];
      else if (instruction.kind == Instruction::Leave)
        all[party].emplace_back(instruction.op, now);
  }
  auto differ = [&](size_t a, size_t b, Operation *at, const std::string &how) {
    return Refusal{at,
                   "ranks " + rank(static_cast<int>(a)) + " and " + rank(static_cast<int>(b)) +
                       " differ where a step that is not finite ends: " + how,
                   {}};
  };
  for (size_t party = 0; party < programs.size(); ++party) {
    if (all[party].size() > all.front().size())
      return differ(0, party, all[party].back().first, rank(0) + " goes on");
    if (all[party].size() < all.front().size())
      return differ(0, party, all.front().back().first, rank(static_cast<int>(party)) + " goes on");
  }
  for (size_t party = 0; party < programs.size(); ++party)
    for (size_t i = 0; i < all[party].size(); ++i)
      for (auto [channel, number] : all[party][i].second)
        for (const int other : channels[channel].members) {
          const Counts &its = all[static_cast<size_t>(other)][i].second;
          const int64_t others = its.count(channel) ? its.at(channel) : 0;
          if (others != number)
            return differ(party, static_cast<size_t>(other), all[party][i].first,
                          "of one group or edge " + rank(static_cast<int>(party)) + " has started " +
                              std::to_string(number) + " messages, " + rank(other) + " " + std::to_string(others));
        }
  return std::nullopt;
}

/// Follows who waits for whom, until a rank comes again or has ended.
Verdict Run::stuck() const {
  auto first = llvm::find_if(parties, [](const Party &party) { return party.isAsleep; });
  if (first == parties.end())
    return std::nullopt;
  Refusal refused{nullptr, "no rank goes on: ", {}};
  SmallVector<int> path;
  for (int party = static_cast<int>(first - parties.begin()); !llvm::is_contained(path, party);) {
    const Party &own = parties[party];
    refused.text += path.empty() ? "" : "; ";
    if (own.at == programs[party].instructions.size()) {
      refused.text += "rank " + rank(party) + " has ended";
      break;
    }
    path.push_back(party);
    const Instruction &at = programs[party].instructions[own.at];
    const int head = blocker(party, at);
    const Start &blocks = programs[party].starts[head];
    refused.text += "rank " + rank(party) + " waits for " + described(blocks);
    if (refused.at)
      refused.notes.push_back({at.op, "rank " + rank(party) + " is here"});
    else
      refused.at = at.op;
    if (own.places[head].number < 0) // it has not started what it waits for
      break;
    const auto &met = meetings.at({blocks.channel, own.places[head].number});
    const auto &members = channels[blocks.channel].members;
    auto hasCome = [&](int one) { return llvm::any_of(met, [&](const Arrival &a) { return a.party == one; }); };
    party = *llvm::find_if_not(members, hasCome);
    refused.text += ", to which rank " + rank(party) + " does not come";
  }
  return refused;
}

/// The message at the head of the stream for which a party waits.
int Run::blocker(int party, const Instruction &at) const {
  const Party &own = parties[party];
  const bool isStarted = at.kind != Instruction::Wait || own.places[at.start].number >= 0;
  return isStarted ? own.streams.at(streamOf(programs[party].starts[at.start])).front() : at.start;
}
} // namespace

Verdict prove::checkTogether(ArrayRef<Program> programs, const Channels &channels) {
  return Run(programs, channels).run();
}
