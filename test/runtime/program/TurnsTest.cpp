// Schedules of pipelines: every pass once, none waits forever, and how many micro batches are kept.
#include "runtime/program/Turns.h"
#include "gtest/gtest.h"

#include <algorithm>
#include <map>
#include <set>

using namespace echelon::runtime;

namespace {

using Schedule = std::vector<Turn> (*)(int64_t stage, int64_t stages, int64_t micro, int64_t chunks);

/// Stages of a pipeline, each as soon as what its next turn needs has come, and what it sent from the same buffer has
/// been received. With one chunk there is one buffer, and a turn begins when it is free; with several there are two in
/// turn, and only the send waits.
class Pipeline {
public:
  Pipeline(Schedule schedule, int64_t stages, int64_t micro, int64_t chunks)
      : stages(stages), micro(micro), chunks(chunks), hasWeights(schedule == zero_bubble), next(stages), most(stages),
        isSending(stages) {
    for (int64_t stage = 0; stage < stages; ++stage)
      turns.push_back(schedule(stage, stages, micro, chunks));
  }

  /// How many chunks of micro batches each stage had between their passes at most. Empty: some wait forever.
  std::vector<int64_t> mostKept() {
    for (bool moved = true; moved;) {
      moved = false;
      for (int64_t stage = 0; stage < stages; ++stage)
        moved |= advance(stage);
    }
    for (int64_t stage = 0; stage < stages; ++stage)
      if (next[stage] != turns[stage].size() || turns[stage].size() != size_t((hasWeights ? 3 : 2) * micro * chunks))
        return {};
    return most;
  }

private:
  /// A pass of a micro batch through a chunk, counted over all stages in the order of the forward pass.
  using Done = std::set<std::pair<int64_t, int64_t>>;
  int64_t placeOf(const Turn &turn, int64_t stage) const { return turn.chunk * stages + stage; }
  bool isIn(int64_t place) const { return 0 <= place && place < stages * chunks; }

  /// Whether the turn's data have come.
  bool hasCome(const Turn &turn, int64_t stage) {
    const int64_t place = placeOf(turn, stage), step = turn.pass == Turn::Forward ? 1 : -1;
    if (turn.pass == Turn::Weights)
      return done[Turn::Backward].count({place, turn.micro}) > 0;
    return (!isIn(place - step) || sent[turn.pass].count({place - step, turn.micro})) &&
           (turn.pass == Turn::Forward || done[Turn::Forward].count({place, turn.micro}));
  }

  /// Whether what went last from the buffer that the turn sends from has been received.
  bool isFree(const Turn &turn, int64_t stage) {
    for (size_t i = next[stage]; i-- > 0;) {
      const Turn &before = turns[stage][i];
      const int64_t to = placeOf(before, stage) + (turn.pass == Turn::Forward ? 1 : -1);
      if (before.pass != turn.pass || turn.pass == Turn::Weights || (chunks > 1 && before.buffer != turn.buffer))
        continue;
      return !isIn(to) || done[turn.pass].count({to, before.micro});
    }
    return true;
  }

  /// One step of a stage, if it can go on: a turn, or behind its computation what it sends.
  bool advance(int64_t stage) {
    if (next[stage] == turns[stage].size())
      return false;
    const Turn &turn = turns[stage][next[stage]];
    if (!isSending[stage]) {
      if (!hasCome(turn, stage) || (chunks == 1 && !isFree(turn, stage)))
        return false;
      take(turn, stage);
      isSending[stage] = true;
      return true;
    }
    const int64_t to = placeOf(turn, stage) + (turn.pass == Turn::Forward ? 1 : -1);
    if (isIn(to) && !isFree(turn, stage))
      return false;
    sent[turn.pass].insert({placeOf(turn, stage), turn.micro});
    isSending[stage] = false;
    ++next[stage];
    return true;
  }

  void take(const Turn &turn, int64_t stage) {
    EXPECT_TRUE(done[turn.pass].insert({placeOf(turn, stage), turn.micro}).second);
    const std::pair<int64_t, int64_t> what(turn.chunk, turn.micro);
    const bool isNew = turn.pass != Turn::Forward || slots[stage].insert({turn.slot, what}).second;
    EXPECT_TRUE(isNew) << "a slot is in use";
    EXPECT_EQ(slots[stage][turn.slot], what) << "a pass has the slot of another one";
    most[stage] = std::max(most[stage], int64_t(slots[stage].size()));
    EXPECT_LT(turn.slot, most[stage]) << "a lower slot was free";
    if (turn.pass == (hasWeights ? Turn::Weights : Turn::Backward))
      slots[stage].erase(turn.slot);
  }

  const int64_t stages, micro, chunks;
  const bool hasWeights;
  std::vector<std::vector<Turn>> turns;
  std::vector<size_t> next;
  std::vector<int64_t> most;
  std::vector<bool> isSending;
  Done done[3], sent[3];                                                   // by pass; what is done has been received
  std::map<int64_t, std::map<int64_t, std::pair<int64_t, int64_t>>> slots; // by stage
};

TEST(Turns, EveryPassOnceAndNoneWaitsForever) {
  for (int64_t stages = 1; stages <= 8; ++stages)
    for (int64_t micro = 1; micro <= 20; ++micro)
      for (Schedule schedule : {one_f_one_b, zero_bubble}) {
        const std::vector<int64_t> most = Pipeline(schedule, stages, micro, 1).mostKept();
        ASSERT_EQ(int64_t(most.size()), stages) << stages << " stages, " << micro << " micro batches";
        for (int64_t stage = 0; stage < stages; ++stage)
          EXPECT_EQ(most[stage], std::min(micro, schedule == zero_bubble ? stages : stages - stage));
      }
}

TEST(Turns, InterleavedForAnyNumberOfMicroBatches) {
  for (int64_t stages = 2; stages <= 8; ++stages)
    for (int64_t chunks = 2; chunks <= 4; ++chunks)
      for (int64_t micro = 1; micro <= 20; ++micro) {
        const std::vector<int64_t> most = Pipeline(interleaved, stages, micro, chunks).mostKept();
        ASSERT_EQ(int64_t(most.size()), stages)
            << stages << " stages, " << micro << " micro batches, " << chunks << " chunks";
        const int64_t rounds = std::max<int64_t>(1, micro / stages), round = (micro + rounds - 1) / rounds;
        for (int64_t stage = 0; stage < stages; ++stage)
          EXPECT_LE(most[stage], std::min(chunks * micro, (chunks - 1) * round + 2 * (stages - stage) - 1));
      }
}

TEST(Turns, OneForwardOneBackward) {
  constexpr auto F = Turn::Forward, B = Turn::Backward;
  EXPECT_EQ(one_f_one_b(0, 2, 3), (std::vector<Turn>{{F, 0}, {F, 1}, {B, 0}, {F, 2}, {B, 1}, {B, 2}}));
  EXPECT_EQ(one_f_one_b(1, 2, 2), (std::vector<Turn>{{F, 0}, {B, 0}, {F, 1}, {B, 1}}));
}

TEST(Turns, Interleaved) {
  constexpr auto F = Turn::Forward, B = Turn::Backward;
  // pass, micro batch, chunk
  EXPECT_EQ(
      interleaved(1, 2, 2, 2),
      (std::vector<Turn>{{F, 0, 0}, {F, 1, 0}, {F, 0, 1}, {B, 0, 1}, {F, 1, 1}, {B, 1, 1}, {B, 0, 0}, {B, 1, 0}}));
}

TEST(Turns, ZeroBubble) {
  constexpr auto F = Turn::Forward, B = Turn::Backward, W = Turn::Weights;
  EXPECT_EQ(zero_bubble(1, 2, 3),
            (std::vector<Turn>{{F, 0}, {B, 0}, {F, 1}, {B, 1}, {W, 0}, {F, 2}, {B, 2}, {W, 1}, {W, 2}}));
}

} // namespace
