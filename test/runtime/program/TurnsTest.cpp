// Schedules of pipelines: every pass once, none waits forever, and how many micro batches are kept.
#include "runtime/program/Turns.h"
#include "gtest/gtest.h"

#include <algorithm>
#include <set>

using namespace echelon::runtime;

namespace {

using Schedule = std::vector<Turn> (*)(int64_t stage, int64_t stages, int64_t micro);

/// Runs the turns of all stages, each as soon as what it needs has come, and what it sent last is gone; how many micro
/// batches each stage had between their two passes at most. Empty: some wait forever.
std::vector<int64_t> mostKept(Schedule schedule, int64_t stages, int64_t micro) {
  std::vector<std::vector<Turn>> turns;
  for (int64_t stage = 0; stage < stages; ++stage)
    turns.push_back(schedule(stage, stages, micro));
  std::vector<size_t> next(stages);
  std::vector<int64_t> kept(stages), most(stages);
  using Done = std::set<std::pair<int64_t, int64_t>>; // (stage, micro batch)
  Done forward, backward, weights;
  const bool hasWeights = schedule == zero_bubble;
  auto isStage = [&](int64_t other) { return 0 <= other && other < stages; };
  auto isReady = [&](const Turn &turn, int64_t stage) {
    if (turn.pass == Turn::Weights)
      return backward.count({stage, turn.micro}) > 0;
    const bool isForward = turn.pass == Turn::Forward;
    const Done &done = isForward ? forward : backward;
    const int64_t from = isForward ? stage - 1 : stage + 1, to = isForward ? stage + 1 : stage - 1;
    const bool hasCome = !isStage(from) || done.count({from, turn.micro});
    const bool isFree = !isStage(to) || turn.micro == 0 || done.count({to, turn.micro - 1}); // what was sent last
    return hasCome && isFree && (isForward || forward.count({stage, turn.micro}));
  };
  for (bool moved = true; moved;) {
    moved = false;
    for (int64_t stage = 0; stage < stages; ++stage) {
      if (next[stage] == turns[stage].size() || !isReady(turns[stage][next[stage]], stage))
        continue;
      const Turn turn = turns[stage][next[stage]];
      Done &done = turn.pass == Turn::Forward ? forward : turn.pass == Turn::Backward ? backward : weights;
      EXPECT_TRUE(done.insert({stage, turn.micro}).second);
      kept[stage] += turn.pass == Turn::Forward                                   ? 1
                     : turn.pass == (hasWeights ? Turn::Weights : Turn::Backward) ? -1
                                                                                  : 0;
      most[stage] = std::max(most[stage], kept[stage]);
      ++next[stage];
      moved = true;
    }
  }
  for (int64_t stage = 0; stage < stages; ++stage)
    if (next[stage] != turns[stage].size() || turns[stage].size() != size_t((hasWeights ? 3 : 2) * micro))
      return {};
  return most;
}

TEST(Turns, EveryPassOnceAndNoneWaitsForever) {
  for (int64_t stages = 1; stages <= 8; ++stages)
    for (int64_t micro = 1; micro <= 20; ++micro)
      for (Schedule schedule : {one_f_one_b, zero_bubble}) {
        const std::vector<int64_t> most = mostKept(schedule, stages, micro);
        ASSERT_EQ(int64_t(most.size()), stages) << stages << " stages, " << micro << " micro batches";
        for (int64_t stage = 0; stage < stages; ++stage)
          EXPECT_EQ(most[stage], std::min(micro, schedule == zero_bubble ? stages : stages - stage));
      }
}

TEST(Turns, OneForwardOneBackward) {
  constexpr auto F = Turn::Forward, B = Turn::Backward;
  EXPECT_EQ(one_f_one_b(0, 2, 3), (std::vector<Turn>{{F, 0}, {F, 1}, {B, 0}, {F, 2}, {B, 1}, {B, 2}}));
  EXPECT_EQ(one_f_one_b(1, 2, 2), (std::vector<Turn>{{F, 0}, {B, 0}, {F, 1}, {B, 1}}));
}

TEST(Turns, ZeroBubble) {
  constexpr auto F = Turn::Forward, B = Turn::Backward, W = Turn::Weights;
  EXPECT_EQ(zero_bubble(1, 2, 3),
            (std::vector<Turn>{{F, 0}, {B, 0}, {F, 1}, {B, 1}, {W, 0}, {F, 2}, {B, 2}, {W, 1}, {W, 2}}));
}

} // namespace
