// Schedules of pipelines: every pass once, none waits forever, and how many micro batches are kept.
#include "runtime/program/Turns.h"
#include "gtest/gtest.h"

#include <algorithm>
#include <set>

using namespace echelon::runtime;

namespace {

/// Runs the turns of all stages, each as soon as what it needs has come, and what it sent last is gone; how many micro
/// batches each stage had between their two passes at most. Empty: some wait forever.
std::vector<int64_t> mostKept(int64_t stages, int64_t micro) {
  std::vector<std::vector<Turn>> turns;
  for (int64_t stage = 0; stage < stages; ++stage)
    turns.push_back(one_f_one_b(stage, stages, micro));
  std::vector<size_t> next(stages);
  std::vector<int64_t> kept(stages), most(stages);
  std::set<std::pair<int64_t, int64_t>> forward, backward; // (stage, micro) that is done
  for (bool moved = true; moved;) {
    moved = false;
    for (int64_t stage = 0; stage < stages; ++stage) {
      if (next[stage] == turns[stage].size())
        continue;
      const Turn turn = turns[stage][next[stage]];
      auto &done = turn.isForward ? forward : backward;
      const int64_t from = turn.isForward ? stage - 1 : stage + 1, to = turn.isForward ? stage + 1 : stage - 1;
      auto isStage = [&](int64_t other) { return 0 <= other && other < stages; };
      const bool hasCome = !isStage(from) || done.count({from, turn.micro});
      const bool isFree = !isStage(to) || turn.micro == 0 || done.count({to, turn.micro - 1}); // what was sent last
      const bool isReady = hasCome && isFree && (turn.isForward || forward.count({stage, turn.micro}));
      if (!isReady)
        continue;
      EXPECT_TRUE((turn.isForward ? forward : backward).insert({stage, turn.micro}).second);
      kept[stage] += turn.isForward ? 1 : -1;
      most[stage] = std::max(most[stage], kept[stage]);
      ++next[stage];
      moved = true;
    }
  }
  for (int64_t stage = 0; stage < stages; ++stage)
    if (next[stage] != turns[stage].size() || turns[stage].size() != size_t(2 * micro))
      return {};
  return most;
}

TEST(Turns, EveryPassOnceAndNoneWaitsForever) {
  for (int64_t stages = 1; stages <= 8; ++stages)
    for (int64_t micro = 1; micro <= 20; ++micro) {
      const std::vector<int64_t> most = mostKept(stages, micro);
      ASSERT_EQ(int64_t(most.size()), stages) << stages << " stages, " << micro << " micro batches";
      for (int64_t stage = 0; stage < stages; ++stage)
        EXPECT_EQ(most[stage], std::min(micro, stages - stage));
    }
}

TEST(Turns, OneForwardOneBackward) {
  EXPECT_EQ(one_f_one_b(0, 2, 3),
            (std::vector<Turn>{{true, 0}, {true, 1}, {false, 0}, {true, 2}, {false, 1}, {false, 2}}));
  EXPECT_EQ(one_f_one_b(1, 2, 2), (std::vector<Turn>{{true, 0}, {false, 0}, {true, 1}, {false, 1}}));
}

} // namespace
