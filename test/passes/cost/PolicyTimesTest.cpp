// Expected times of sync policies against published tables and a simulation of their events.
#include "passes/cost/PolicyTimes.h"
#include <algorithm>
#include <cmath>
#include <gtest/gtest.h>
#include <limits>
#include <random>
#include <string>
#include <vector>

using namespace echelon;

namespace {

constexpr SyncPolicy::Kind kPolicies[] = {SyncPolicy::EveryStep, SyncPolicy::KSync, SyncPolicy::KBatchSync,
                                          SyncPolicy::KAsync, SyncPolicy::KBatchAsync};

bool isBatch(SyncPolicy::Kind policy) { return policy == SyncPolicy::KBatchSync || policy == SyncPolicy::KBatchAsync; }
bool isAsync(SyncPolicy::Kind policy) { return policy == SyncPolicy::KAsync || policy == SyncPolicy::KBatchAsync; }

std::string describe(SyncPolicy::Kind policy, int64_t k, int64_t workers, const Delays &delays) {
  const char *names[] = {"every step", "k_sync", "k_batch_sync", "k_async", "k_batch_async"};
  const std::string kind = !delays.constants.empty() ? "each" : delays.shift > 0 ? "shifted" : "exponential";
  return std::string(names[int(policy)]) + ", k = " + std::to_string(k) + " of " + std::to_string(workers) + ", " +
         kind;
}

/// What a policy says, event by event: (time of an update, mean staleness) of the last nine tenths of `updates`.
struct Simulation {
  double update = 0, staleness = 0;

  Simulation(SyncPolicy::Kind policy, int64_t k, int64_t workers, const Delays &delays, int64_t updates = 20000) {
    std::mt19937_64 random(1);
    auto draw = [&](int64_t worker) {
      if (!delays.constants.empty())
        return delays.constants[worker];
      return delays.shift - delays.mean * std::log((double(random() >> 11) + 0.5) * 0x1p-53);
    };
    const double never = std::numeric_limits<double>::infinity();
    std::vector<double> ends(workers);
    std::vector<int64_t> read(workers), applied, stopped;
    for (int64_t w = 0; w < workers; ++w)
      ends[w] = draw(w);
    const int64_t warm = updates / 10;
    double now = 0, begin = 0;
    int64_t version = 0, gradients = 0, stale = 0;
    while (version < updates) {
      const int64_t worker = std::min_element(ends.begin(), ends.end()) - ends.begin();
      now = ends[worker];
      ends[worker] = never;
      stopped.push_back(worker);
      applied.push_back(read[worker]);
      const bool full = int64_t(applied.size()) == k;
      if (full) {
        for (int64_t r : applied) {
          stale += version - r;
          ++gradients;
        }
        applied.clear();
        if (++version == warm) {
          begin = now;
          stale = gradients = 0;
        }
      }
      if (full && !isAsync(policy)) { // all stop
        stopped.resize(workers);
        for (int64_t w = 0; w < workers; ++w)
          stopped[w] = w;
      }
      if (!full && !isBatch(policy))
        continue; // waits
      for (int64_t w : stopped) {
        ends[w] = now + draw(w);
        read[w] = version;
      }
      stopped.clear();
    }
    update = (now - begin) / double(updates - warm);
    staleness = double(stale) / double(gradients);
  }
};

struct Case {
  int64_t workers;
  Delays delays;
};

std::vector<Case> cases() {
  return {{8, Delays::exponential(1)},
          {8, Delays::shifted(0.5, 0.5)},
          {8, Delays::each({1, 1.25, 1, 3, 0.75, 1, 2, 1.5})},
          {4, Delays::each({1, 1, 1, 3})},
          {3, Delays::shifted(0.25, 2)},
          {1, Delays::exponential(2)},
          {1, Delays::shifted(0.5, 0.5)},
          {1, Delays::each({3})}};
}

// The table of the design (mathematics, section 3): P = 8, exponential(1) and shifted(0.5, 0.5). What is simulated in
// both is held to 1 %, the rest to the last digit.
TEST(PolicyTimes, Table) {
  struct Row {
    double exponentialSync, exponentialBatch;
    double kSync, kBatchSync, kAsync, kBatchAsync;
    double staleAsync, staleBatch;
  };
  const Row rows[] = {
      {0.125, 0.125, 0.562, 0.562, 0.125, 0.125, 7.00, 7.00}, {0.268, 0.250, 0.634, 0.634, 0.266, 0.250, 3.00, 3.50},
      {0.435, 0.375, 0.717, 0.716, 0.428, 0.375, 1.67, 2.33}, {0.635, 0.500, 0.817, 0.815, 0.619, 0.500, 1.00, 1.75},
      {0.885, 0.625, 0.942, 0.933, 0.811, 0.625, 0.60, 1.40}, {1.218, 0.750, 1.109, 1.063, 1.024, 0.750, 0.33, 1.17},
      {1.718, 0.875, 1.359, 1.206, 1.325, 0.875, 0.14, 1.00}, {2.718, 1.000, 1.859, 1.338, 1.859, 1.000, 0.00, 0.88}};
  for (int64_t k = 1; k <= 8; ++k) {
    const Row &row = rows[k - 1];
    auto expect = [&](SyncPolicy::Kind policy, const Delays &delays, double update, bool exact) {
      const PolicyTime time = expectedTime(policy, k, 8, delays);
      EXPECT_NEAR(time.update, update, exact ? 0.00051 : 0.01 * update) << describe(policy, k, 8, delays);
      EXPECT_EQ(time.exact, exact) << describe(policy, k, 8, delays);
      EXPECT_DOUBLE_EQ(time.miniBatch, time.update / double(k));
      EXPECT_NEAR(time.staleness,
                  policy == SyncPolicy::KAsync        ? row.staleAsync
                  : policy == SyncPolicy::KBatchAsync ? row.staleBatch
                                                      : 0,
                  0.0051);
    };
    const Delays exponential = Delays::exponential(1), shifted = Delays::shifted(0.5, 0.5);
    expect(SyncPolicy::KSync, exponential, row.exponentialSync, true);
    expect(SyncPolicy::KAsync, exponential, row.exponentialSync, true);
    expect(SyncPolicy::KBatchSync, exponential, row.exponentialBatch, true);
    expect(SyncPolicy::KBatchAsync, exponential, row.exponentialBatch, true);
    expect(SyncPolicy::KSync, shifted, row.kSync, true);
    expect(SyncPolicy::KBatchSync, shifted, row.kBatchSync, k == 1);
    expect(SyncPolicy::KAsync, shifted, row.kAsync, k == 1 || k == 8);
    expect(SyncPolicy::KBatchAsync, shifted, row.kBatchAsync, true);
  }
}

// Times within 2 % of the events, whether closed or simulated; the batch forms also for k > P.
TEST(PolicyTimes, EqualEvents) {
  for (const auto &[workers, delays] : cases())
    for (SyncPolicy::Kind policy : kPolicies)
      for (int64_t k = 1; k <= (isBatch(policy) ? workers + 3 : workers); ++k) {
        if (policy == SyncPolicy::EveryStep && k != workers)
          continue;
        const PolicyTime time = expectedTime(policy, k, workers, delays);
        const Simulation events(policy, k, workers, delays);
        EXPECT_NEAR(time.update, events.update, 0.02 * events.update) << describe(policy, k, workers, delays);
      }
}

// Mean staleness is P - 1, P / k - 1 and (P - 1) / k whatever the delays, constants too; within 5 % of the events.
TEST(PolicyTimes, Staleness) {
  for (const auto &[workers, delays] : cases())
    for (SyncPolicy::Kind policy : kPolicies)
      for (int64_t k = policy == SyncPolicy::EveryStep ? workers : 1; k <= (isBatch(policy) ? workers + 3 : workers);
           ++k) {
        const double expected = expectedTime(policy, k, workers, delays).staleness;
        const Simulation events(policy, k, workers, delays);
        EXPECT_NEAR(expected, events.staleness, 0.05 * expected) << describe(policy, k, workers, delays);
      }
  EXPECT_EQ(expectedTime(SyncPolicy::KAsync, 1, 8, Delays::exponential(1)).staleness, 7);
  EXPECT_EQ(expectedTime(SyncPolicy::KAsync, 4, 8, Delays::exponential(1)).staleness, 1);
  EXPECT_EQ(expectedTime(SyncPolicy::KBatchAsync, 4, 8, Delays::exponential(1)).staleness, 1.75);
}

// An update of K-batch-sync takes at most as long as one of K-sync, which takes less than one of sync, for 1 < k < P.
TEST(PolicyTimes, OrderOfSyncForms) {
  for (const auto &[workers, delays] : cases())
    for (int64_t k = 2; k < workers; ++k) {
      const PolicyTime batch = expectedTime(SyncPolicy::KBatchSync, k, workers, delays);
      const double kSync = expectedTime(SyncPolicy::KSync, k, workers, delays).update;
      EXPECT_LE(batch.update, kSync * (batch.exact ? 1 : 1.01)) << describe(SyncPolicy::KBatchSync, k, workers, delays);
      EXPECT_LT(kSync, expectedTime(SyncPolicy::EveryStep, 1, workers, delays).update)
          << describe(SyncPolicy::KSync, k, workers, delays);
    }
}

// Shifted delays are new longer than used: workers that go on end before fresh ones, so K-async lies below K-sync.
TEST(PolicyTimes, AsyncBelowSyncWhereShifted) {
  const Delays delays = Delays::shifted(0.5, 0.5);
  for (int64_t k = 1; k < 8; ++k)
    EXPECT_LT(expectedTime(SyncPolicy::KAsync, k, 8, delays).update,
              expectedTime(SyncPolicy::KSync, k, 8, delays).update)
        << "k = " << k;
}

// By the mini-batch K-sync may lose to sync: what the slower workers did is thrown away.
TEST(PolicyTimes, MiniBatchOfKSyncMayCostMore) {
  const Delays delays = Delays::shifted(0.5, 0.5);
  EXPECT_NEAR(expectedTime(SyncPolicy::KSync, 2, 8, delays).miniBatch, 0.317, 0.00051);
  EXPECT_NEAR(expectedTime(SyncPolicy::EveryStep, 2, 8, delays).miniBatch, 0.232, 0.00051);
}

// k = P: K-sync and K-async are sync. k = 1: K-async and K-batch-async are one program.
TEST(PolicyTimes, Ends) {
  for (const auto &[workers, delays] : cases()) {
    const double sync = expectedTime(SyncPolicy::EveryStep, workers, workers, delays).update;
    EXPECT_EQ(expectedTime(SyncPolicy::KSync, workers, workers, delays).update, sync);
    EXPECT_EQ(expectedTime(SyncPolicy::KAsync, workers, workers, delays).update, sync);
    EXPECT_EQ(expectedTime(SyncPolicy::KAsync, 1, workers, delays).update,
              expectedTime(SyncPolicy::KBatchAsync, 1, workers, delays).update);
  }
}

// Constants of 1, 1, 1, 3: the slow worker hands in every third time of the others.
TEST(PolicyTimes, Constants) {
  const Delays delays = Delays::each({1, 1, 1, 3});
  EXPECT_EQ(expectedTime(SyncPolicy::EveryStep, 4, 4, delays).update, 3);
  EXPECT_EQ(expectedTime(SyncPolicy::KSync, 3, 4, delays).update, 1);
  EXPECT_EQ(expectedTime(SyncPolicy::KBatchSync, 4, 4, delays).update, 2);
  EXPECT_EQ(expectedTime(SyncPolicy::KBatchSync, 10, 4, delays).update, 3);
  EXPECT_DOUBLE_EQ(expectedTime(SyncPolicy::KBatchAsync, 10, 4, delays).update, 3);
  EXPECT_DOUBLE_EQ(expectedTime(SyncPolicy::KAsync, 1, 4, delays).update, 0.3);
}

// Delays that are shifted by a constant and drawn from nothing are that constant.
TEST(PolicyTimes, ShiftAlone) {
  const Delays delays = Delays::shifted(2, 0);
  EXPECT_EQ(expectedTime(SyncPolicy::EveryStep, 4, 4, delays).update, 2);
  EXPECT_EQ(expectedTime(SyncPolicy::KBatchSync, 5, 4, delays).update, 4);
  EXPECT_NEAR(expectedTime(SyncPolicy::KAsync, 2, 4, delays).update, 1, 0.01);
}

// Workers that meet after every n mini-batches, against draws of their sums; meeting after each is `every step`.
TEST(PolicyTimes, Local) {
  std::mt19937_64 random(1);
  for (int64_t workers : {1, 4, 16})
    for (int64_t steps : {1, 5, 64, 400}) {
      double sum = 0;
      constexpr int kMeetings = 2000;
      for (int meeting = 0; meeting < kMeetings; ++meeting) {
        double slowest = 0;
        for (int64_t w = 0; w < workers; ++w) {
          double all = 0;
          for (int64_t i = 0; i < steps; ++i)
            all += 0.5 - 0.5 * std::log((double(random() >> 11) + 0.5) * 0x1p-53);
          slowest = std::max(slowest, all);
        }
        sum += slowest / double(steps) / kMeetings;
      }
      EXPECT_NEAR(expectedLocalTime(steps, workers, Delays::shifted(0.5, 0.5)), sum, 0.03 * sum)
          << workers << " workers, " << steps << " steps";
    }
  const Delays delays = Delays::shifted(0.25, 2);
  EXPECT_NEAR(expectedLocalTime(1, 8, delays), expectedTime(SyncPolicy::EveryStep, 8, 8, delays).update, 1e-4);
  EXPECT_NEAR(expectedLocalTime(20, 1, delays), 2.25, 1e-4);
  EXPECT_EQ(expectedLocalTime(20, 4, Delays::each({1, 1, 1, 3})), 3);
}

// Times scale with their unit; a simulation draws the same numbers each time.
TEST(PolicyTimes, Units) {
  for (SyncPolicy::Kind policy : {SyncPolicy::KBatchSync, SyncPolicy::KAsync}) {
    const double once = expectedTime(policy, 5, 8, Delays::shifted(0.5, 0.5)).update;
    EXPECT_EQ(expectedTime(policy, 5, 8, Delays::shifted(0.5, 0.5)).update, once);
    EXPECT_EQ(expectedTime(policy, 5, 8, Delays::shifted(1, 1)).update, 2 * once);
  }
}

} // namespace
