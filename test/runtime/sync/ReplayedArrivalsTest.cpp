// Arrivals of a log: the same as those of the run that wrote it, and what logs are refused.
#include "Policies.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>

using namespace echelon::runtime;

namespace {

/// A log in a file of its own.
class Log {
public:
  Log() : path(std::filesystem::path(testing::TempDir()) / "echelon-replay.jsonl") { std::filesystem::remove(path); }
  ~Log() { std::filesystem::remove(path); }
  Log &line(const std::string &text) {
    std::ofstream(path, std::ios::app) << text << "\n";
    return *this;
  }
  Log &row(int64_t step, const Update &update) {
    std::string of[3];
    for (const HandedIn &gradient : update.gradients) {
      const int64_t values[] = {gradient.worker, gradient.ticket, gradient.read};
      for (size_t i = 0; i < 3; ++i)
        of[i] += (of[i].empty() ? "" : ", ") + std::to_string(values[i]);
    }
    std::ostringstream time;
    time.precision(17);
    time << update.time;
    return line("{\"step\": " + std::to_string(step) + ", \"loss\": 1.5, \"workers\": [" + of[0] + "], \"tickets\": [" +
                of[1] + "], \"reads\": [" + of[2] + "], \"time\": " + time.str() + "}");
  }
  /// The error of replaying it after step `version`, to step `last`, without the file's name; empty: there is none.
  std::string error(const SyncPolicy &policy, int64_t version, int64_t last) const {
    std::string error;
    replayedArrivals(policy, path.string(), version, last, error);
    const std::string name = "\"" + path.string() + "\"";
    if (error.compare(0, name.size(), name) == 0)
      error.erase(0, name.size());
    return error;
  }

  const std::filesystem::path path;
};

// The log of a run whose workers meet after step 5, and what workers read on the way.
TEST(ReplayedArrivals, AreThoseOfTheRun) {
  forAllPolicies(4, [](const SyncPolicy &policy) {
    auto meetAt5 = [](Arrivals &arrivals, int64_t done) {
      if (done == 5)
        arrivals.meet(5);
    };
    Log log;
    auto drawn = drawnArrivals(policy, 3, 0, {});
    for (int64_t version = 0; version < 20; ++version) {
      log.row(version + 1, drawn->next(version));
      meetAt5(*drawn, version + 1);
      if (version == 4)
        log.line("{\"step\": 5, \"eval_loss\": 2.5}");
    }
    for (const int64_t from : {0, 5}) {
      std::string error;
      auto replayed = replayedArrivals(policy, log.path.string(), from, 20, error);
      ASSERT_TRUE(replayed) << error;
      auto again = drawnArrivals(policy, 3, 0, {});
      for (int64_t version = 0; version < 20; ++version) {
        const Update update = again->next(version);
        if (version >= from) {
          ASSERT_EQ(textOf(update), textOf(replayed->next(version))) << textOf(policy);
        }
        meetAt5(*again, version + 1);
        if (version < from)
          continue;
        for (int64_t worker = 0; worker < policy.workers; ++worker)
          if (const int64_t read = replayed->readBy(worker); policy.isAsync() && read >= 0 && read <= version) {
            ASSERT_EQ(read, again->readBy(worker)) << textOf(policy);
          }
      }
    }
  });
}

const Update kUpdate = {{{1, 1, 0}, {0, 0, 0}}, 1};

// Each refusal says the line, and what is wrong with it.
TEST(ReplayedArrivals, RefuseOtherLogs) {
  const SyncPolicy policy = policyOf(SyncPolicy::KAsync, 2, 3);
  EXPECT_EQ(Log().row(1, kUpdate).row(2, kUpdate).error(policy, 0, 2), "");
  EXPECT_EQ(Log().row(1, kUpdate).error(policy, 0, 2),
            " ends after step 1, and the run after step 2; stop it there, with --steps");
  EXPECT_EQ(Log().line("{\"step\": 1, \"loss\": 1.5}").error(policy, 0, 1),
            ", line 1: step 1 does not say which workers' gradients it applied: it is of a run without this sync "
            "policy");
  EXPECT_EQ(Log().row(1, kUpdate).error(policyOf(SyncPolicy::KAsync, 1, 3), 0, 1),
            ", line 1: step 1 applied 2 gradients, and this policy applies 1");
  EXPECT_EQ(
      Log().row(1, kUpdate).error(policyOf(SyncPolicy::KBatchAsync, 2, 1), 0, 1),
      ", line 1: step 1 has a gradient of worker 1, ticket 1, read at 0, that this policy with 1 workers cannot have");
  EXPECT_EQ(
      Log().row(1, kUpdate).row(2, kUpdate).error(policyOf(SyncPolicy::KSync, 2, 3), 0, 2),
      ", line 2: step 2 has a gradient of worker 1, ticket 1, read at 0, that this policy with 3 workers cannot have");
  EXPECT_EQ(
      Log().row(1, {{{0, 0, 0}, {1, 1, 1}}, 1}).error(policy, 0, 1),
      ", line 1: step 1 has a gradient of worker 1, ticket 1, read at 1, that this policy with 3 workers cannot have");
  EXPECT_EQ(Log().row(1, kUpdate).row(2, {{{2, 2, 0}, {1, 3, 0}}, 1}).error(policy, 0, 2), "");
  EXPECT_EQ(Log().row(1, kUpdate).row(2, kUpdate).row(3, kUpdate).error(policy, 0, 3),
            ", line 3: step 3 has a gradient of worker 1, ticket 1, read at 0, that the worker can have read at 1 or "
            "later: replay begins where the run did, or where all workers met");
  EXPECT_EQ(Log().row(1, kUpdate).row(2, {{{1, 3, 1}, {2, 2, 0}}, 1}).error(policy, 1, 2),
            ", line 2: step 2 has a gradient of worker 2, ticket 2, read at 0, that the worker can have read at 1 or "
            "later: replay begins where the run did, or where all workers met");
  EXPECT_EQ(Log().row(1, {{{1, 1, 0}, {1, 0, 0}}, 1}).error(policy, 0, 1),
            ", line 1: step 1 has a gradient of worker 1, ticket 0, read at 0, that is the worker's second in one "
            "update, and this policy takes one of each");
  SyncPolicy fresh = policy;
  fresh.staleness = 1;
  EXPECT_EQ(Log().row(1, kUpdate).row(2, kUpdate).error(fresh, 0, 2), "");
  EXPECT_EQ(
      Log().row(1, kUpdate).row(2, kUpdate).row(3, {{{2, 2, 0}, {1, 3, 2}}, 1}).error(fresh, 0, 3),
      ", line 3: step 3 has a gradient of worker 2, ticket 2, read at 0, that is older than staleness = 1 allows");
  EXPECT_EQ(Log().row(1, kUpdate).row(3, kUpdate).error(policy, 0, 2), ", line 2: step 2 is missing");
  EXPECT_EQ(Log().row(1, kUpdate).line("no json").error(policy, 0, 2), ", line 2: is no row of a log");
  EXPECT_EQ(
      Log().line("{\"step\": 1, \"loss\": 1, \"workers\": 5, \"tickets\": [1], \"reads\": [0]}").error(policy, 0, 1),
      ", line 1: is no row of a log");
  EXPECT_EQ(Log().line("{\"step\": 1, \"rolled_back_from\": 3}").error(policy, 0, 1),
            ", line 1: the run went back to a snapshot, and such a run is not replayed");
  EXPECT_NE(Log().error(policy, 0, 1), "") << "there is no such file";
}

} // namespace
