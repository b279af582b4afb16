#include "test/mutants/messages/Pipelines.h"
#include "mlir/IR/Builders.h"
#include <deque>
#include <numeric>
#include <set>

using namespace mlir;
using namespace echelon;
using namespace echelon::prove;
using namespace echelon::test;

namespace {
std::string spell(const void *name) { return *static_cast<const std::string *>(name); }
/// One string of each content: what names and labels are told apart by.
const std::string *intern(const std::string &text) {
  static std::set<std::string> all;
  return &*all.insert(text).first;
}

struct Slot {
  char what; // F or B
  int micro;
};
std::vector<Slot> slotsOf(const PipelineShape &shape, int stage) {
  std::vector<Slot> slots;
  const int m = shape.microBatches, ahead = shape.inTurn ? std::min(m, shape.stages - 1 - stage) : m;
  for (int i = 0; i < ahead; ++i)
    slots.push_back({'F', i});
  for (int i = 0; i < m; ++i) {
    if (ahead + i < m)
      slots.push_back({'F', ahead + i});
    slots.push_back({'B', i});
  }
  return slots;
}

/// The program of one rank.
class Author {
public:
  Author(const PipelineShape &shape, int stage, int replica, Operation *compute, Operation *message, Channels &channels)
      : shape(shape), stage(stage), replica(replica), computeOp(compute), messageOp(message), channels(channels) {
    program.rank = rank(stage);
  }
  Program write();

private:
  using Names = std::vector<std::string>;

  int rank(int ofStage) const { return ofStage * shape.replicas + replica; }
  Range range(const std::string &name);
  SmallVector<Range, 2> ranges(const Names &names) {
    SmallVector<Range, 2> all;
    for (const std::string &name : names)
      all.push_back(range(name));
    return all;
  }
  void compute(const Names &reads, const Names &writes) {
    program.instructions.push_back({Instruction::Touch, computeOp, -1, ranges(reads), ranges(writes)});
  }
  int start(StringRef kind, rt::Message::Side side, int channel, int64_t tag, const std::string &label, int64_t count,
            const Names &reads, const Names &writes);
  void wait(int start) { program.instructions.push_back({Instruction::Wait, messageOp, start, {}, {}}); }
  int move(Slot slot, bool isSend, const std::string &buffer);
  int reduce(StringRef over, std::vector<int> ranks, const std::string &buffer, int64_t count);
  void post(size_t slot);
  int from(Slot slot) const { return slot.what == 'F' ? stage - 1 : stage + 1; }
  int to(Slot slot) const { return slot.what == 'F' ? stage + 1 : stage - 1; }
  bool isStage(int s) const { return s >= 0 && s < shape.stages; }
  static std::string called(Slot slot) { return slot.what + std::to_string(slot.micro); }

  const PipelineShape &shape;
  const int stage, replica;
  Operation *computeOp, *messageOp;
  Channels &channels;
  Program program;
  std::vector<Slot> slots;
  std::map<std::string, int64_t> places;
  std::map<size_t, int> received; // starts, by slot
};

/// Parameters, "w…", are stored; everything else is work, apart.
Range Author::range(const std::string &name) {
  const int64_t at = places.try_emplace(name, 64 * static_cast<int64_t>(places.size())).first->second;
  const rt::Arena arena = name[0] == 'w' ? rt::Arena::State : rt::Arena::Work;
  return {arena, at, at + 64, intern(name), at, at + 64, spell};
}

int Author::start(StringRef kind, rt::Message::Side side, int channel, int64_t tag, const std::string &label,
                  int64_t count, const Names &reads, const Names &writes) {
  Start made;
  made.is.side = side;
  made.is.kind = kind;
  made.is.axes = "pp";
  made.is.element = Float32Type::get(messageOp->getContext());
  made.is.count = count;
  made.is.tag = tag;
  made.is.what = intern(label);
  made.channel = channel;
  made.op = messageOp;
  const int index = static_cast<int>(program.starts.size());
  program.starts.push_back(made);
  program.instructions.push_back({Instruction::Begin, messageOp, index, ranges(reads), ranges(writes)});
  return index;
}

int Author::move(Slot slot, bool isSend, const std::string &buffer) {
  const int a = rank(isSend ? stage : from(slot)), b = rank(isSend ? to(slot) : stage);
  const int64_t tag = slot.what;
  const int channel = channels.find({1, tag, a, b}, {true, {a, b}});
  if (isSend)
    return start("send", rt::Message::Side::Sender, channel, tag, called(slot), 16, {buffer}, {});
  return start("receive", rt::Message::Side::Receiver, channel, tag, called(slot), 16, {}, {buffer});
}

int Author::reduce(StringRef over, std::vector<int> ranks, const std::string &buffer, int64_t count) {
  std::vector<int64_t> key(ranks.begin(), ranks.end());
  key.insert(key.begin(), 0);
  const int channel = channels.find(key, {false, SmallVector<int, 4>(ranks.begin(), ranks.end())});
  const int made = start("all_reduce", rt::Message::Side::Member, channel, 0, over.str(), count, {buffer}, {buffer});
  program.starts[made].is.reduction = "Sum";
  program.starts[made].is.axes = over == "norm" ? "pp+dp" : "dp";
  return made;
}

void Author::post(size_t slot) {
  if (slot < slots.size() && isStage(from(slots[slot])) && !received.count(slot))
    received[slot] = move(slots[slot], false, "in " + called(slots[slot]));
}

Program Author::write() {
  slots = slotsOf(shape, stage);
  compute({}, {"gradient"});
  std::map<char, std::deque<int>> sent;
  for (size_t i = 0; i < slots.size(); ++i) {
    const Slot slot = slots[i];
    post(i);
    post(i + 1);
    Names reads = {"w"};
    if (received.count(i)) {
      wait(received[i]);
      reads.push_back("in " + called(slot));
    }
    std::string out = "end";
    if (isStage(to(slot))) {
      out = std::string("out ") + slot.what + std::to_string(slot.micro % 2);
      if (sent[slot.what].size() >= 2) {
        wait(sent[slot.what].front());
        sent[slot.what].pop_front();
      }
    }
    if (slot.what == 'B')
      reads.insert(reads.end(), {"kept " + std::to_string(slot.micro), "gradient"});
    compute(reads, {out, slot.what == 'F' ? "kept " + std::to_string(slot.micro) : "gradient"});
    if (isStage(to(slot)))
      sent[slot.what].push_back(move(slot, true, out));
  }
  int summed = -1;
  std::vector<int> peers(static_cast<size_t>(shape.replicas)), all(static_cast<size_t>(shape.replicas * shape.stages));
  std::iota(peers.begin(), peers.end(), stage * shape.replicas);
  std::iota(all.begin(), all.end(), 0);
  if (shape.replicas > 1)
    summed = reduce("gradient of " + std::to_string(stage), peers, "gradient", 16 + stage);
  for (auto &[what, starts] : sent)
    for (int start : starts)
      wait(start);
  if (summed >= 0)
    wait(summed);
  compute({"gradient"}, {"norm"});
  wait(reduce("norm", all, "norm", 1));
  compute({"gradient", "norm", "w"}, {"w"});
  return program;
}
} // namespace

Ranks test::pipeline(const PipelineShape &shape, Operation *compute, Operation *message) {
  Ranks ranks;
  ranks.name = "pipeline of " + std::to_string(shape.stages) + " x " + std::to_string(shape.replicas) + ", " +
               std::to_string(shape.microBatches) + (shape.inTurn ? " in turn" : "");
  for (int stage = 0; stage < shape.stages; ++stage)
    for (int replica = 0; replica < shape.replicas; ++replica)
      ranks.programs.push_back(Author(shape, stage, replica, compute, message, ranks.channels).write());
  return ranks;
}
