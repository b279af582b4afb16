// Arrivals on a drawn clock: against a simulation that keeps a list of events, and what holds of any order.
#include "Policies.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <set>

using namespace echelon::runtime;

namespace {

constexpr uint64_t kSeed = 7;

/// The definition, written down once more. All finishes are events of one queue, in order of (time, worker).
class Simulation {
public:
  explicit Simulation(const SyncPolicy &p) : policy(p) {}

  Update next() {
    Update update;
    if (!policy.isAsync()) {
      events.clear(); // who has not finished stops
      for (int64_t worker = 0; worker < policy.workers; ++worker)
        begin(worker);
    }
    if (policy.isAsync())
      for (int64_t worker = 0; worker < policy.workers; ++worker)
        if (!inHand.count(worker))
          begin(worker);
    while (!isComplete(update)) {
      const auto first = events.begin();
      const auto [time, worker] = *first;
      clock = time;
      events.erase(first);
      waiting.insert(worker);
      if (!policy.isAsync()) {
        take(worker, update);
        if (policy.kind == SyncPolicy::KBatchSync && int64_t(update.gradients.size()) < policy.k)
          begin(worker);
      }
    }
    update.time = clock;
    ++version;
    return update;
  }

private:
  void begin(int64_t worker) {
    inHand[worker] = {worker, ticket, version};
    events.insert({clock + policy.delay.of(worker, ticket, kSeed), worker});
    ++ticket;
  }
  void take(int64_t worker, Update &update) {
    update.gradients.push_back(inHand.at(worker));
    waiting.erase(worker);
    inHand.erase(worker);
  }

  /// Takes of those who wait whom it can.
  bool isComplete(Update &update) {
    if (policy.kind == SyncPolicy::KAsync) {
      const std::vector<int64_t> oldest = oldestFirst();
      if (int64_t(oldest.size()) < policy.k)
        return false;
      const std::vector<int64_t> chosen(oldest.begin(), oldest.begin() + policy.k);
      if (!allInTime(policy.k, {chosen.begin(), chosen.end()}))
        return false;
      for (const int64_t worker : chosen)
        take(worker, update);
      // In order of arrival: here, of delays' ends.
      std::sort(update.gradients.begin(), update.gradients.end(), [&](const HandedIn &a, const HandedIn &b) {
        return std::pair(endOf(a), a.worker) < std::pair(endOf(b), b.worker);
      });
      for (const HandedIn &gradient : update.gradients)
        ends.erase(gradient.ticket);
      return true;
    }
    if (policy.kind == SyncPolicy::KBatchAsync)
      for (bool isTaken = true; isTaken && int64_t(update.gradients.size()) < policy.k;) {
        isTaken = false;
        for (const int64_t worker : oldestFirst()) {
          if (!allInTime(int64_t(update.gradients.size()) + 1, {worker}))
            continue;
          take(worker, update);
          if (int64_t(update.gradients.size()) < policy.k && mayBegin(int64_t(update.gradients.size())))
            begin(worker);
          isTaken = true;
          break;
        }
      }
    return int64_t(update.gradients.size()) == policy.k;
  }
  std::vector<int64_t> oldestFirst() {
    for (const int64_t worker : waiting)
      ends.insert({inHand.at(worker).ticket, clock}); // the first time that it is seen waiting
    std::vector<int64_t> list(waiting.begin(), waiting.end());
    std::stable_sort(list.begin(), list.end(),
                     [&](int64_t a, int64_t b) { return inHand.at(a).read < inHand.at(b).read; });
    return list;
  }
  double endOf(const HandedIn &gradient) const { return ends.at(gradient.ticket); }

  /// Whether gradients that read these versions find places: `taken` of this update are gone, each update has k.
  bool findPlaces(std::multiset<int64_t> reads, int64_t taken) const {
    int64_t update = version, left = policy.k - taken;
    for (const int64_t read : reads) {
      if (left == 0) {
        ++update;
        left = policy.k;
      }
      if (policy.staleness >= 0 && update - read > policy.staleness)
        return false;
      --left;
    }
    return true;
  }
  bool allInTime(int64_t taken, const std::set<int64_t> &gone) const {
    std::multiset<int64_t> reads;
    for (const auto &[worker, gradient] : inHand)
      if (!gone.count(worker))
        reads.insert(gradient.read);
    return findPlaces(reads, taken);
  }
  bool mayBegin(int64_t taken) const {
    std::multiset<int64_t> reads = {version};
    for (const auto &[worker, gradient] : inHand)
      reads.insert(gradient.read);
    return findPlaces(reads, taken);
  }

  const SyncPolicy policy;
  double clock = 0;
  int64_t ticket = 0, version = 0;
  std::set<std::pair<double, int64_t>> events; // finishes: time, worker
  std::map<int64_t, HandedIn> inHand;          // by worker: what it computes, or waits with
  std::set<int64_t> waiting;
  std::map<int64_t, double> ends; // by ticket: when it was done
};

// A mean of draws is that of the distribution, and a draw is of its ticket alone.
TEST(Delay, IsDrawnByTicket) {
  const Delay exponential = {Delay::Exponential, {2}}, shifted = {Delay::Shifted, {0.5, 0.25}},
              each = {Delay::Each, {1, 3}};
  double sum = 0, squares = 0, least = 1e9;
  constexpr int kDraws = 20'000;
  for (int ticket = 0; ticket < kDraws; ++ticket) {
    const double x = exponential.of(0, ticket, kSeed), y = shifted.of(0, ticket, kSeed);
    EXPECT_EQ(x, exponential.of(1, ticket, kSeed));
    EXPECT_DOUBLE_EQ(y, 0.5 + 0.25 * x / 2);
    sum += x;
    squares += x * x;
    least = std::min(least, y);
  }
  EXPECT_NEAR(sum / kDraws, 2, 0.05);
  EXPECT_NEAR(squares / kDraws, 8, 0.5);
  EXPECT_GT(least, 0.5);
  EXPECT_NE(exponential.of(0, 0, kSeed), exponential.of(0, 0, kSeed + 1));
  EXPECT_EQ(each.of(1, 5, kSeed), 3);
}

// Gradient by gradient: who, which ticket, what it read, when.
TEST(DrawnArrivals, AreThoseOfTheEvents) {
  forAllPolicies(6, [](SyncPolicy policy) {
    for (const Delay &delay : {Delay{Delay::Exponential, {1}}, Delay{Delay::Shifted, {0.5, 0.5}}}) {
      policy.delay = delay;
      Simulation expected(policy);
      auto arrivals = drawnArrivals(policy, kSeed, 0, {});
      for (int64_t version = 0; version < 100; ++version)
        ASSERT_EQ(textOf(arrivals->next(version)), textOf(expected.next())) << textOf(policy) << ", " << version;
    }
  });
}

// Workers that take equally long finish together, and the lower one is first.
TEST(DrawnArrivals, GiveTiesToTheLowerWorker) {
  SyncPolicy policy = policyOf(SyncPolicy::KAsync, 2, 4);
  policy.delay = {Delay::Each, {1, 1, 1, 1}};
  auto arrivals = drawnArrivals(policy, kSeed, 0, {});
  EXPECT_EQ(textOf(arrivals->next(0)), "0:0@0 1:1@0 at 1.000000");
  EXPECT_EQ(textOf(arrivals->next(1)), "2:2@0 3:3@0 at 1.000000");
  EXPECT_EQ(textOf(arrivals->next(2)), "0:4@1 1:5@1 at 2.000000");
}

// No policy comes to a halt, no gradient is older than it may be, and none is lost where nobody stops.
TEST(DrawnArrivals, KeepTheRules) {
  forAllPolicies(6, [](const SyncPolicy &policy) {
    auto arrivals = drawnArrivals(policy, kSeed, 0, {});
    std::set<int64_t> tickets;
    double time = 0;
    for (int64_t version = 0; version < 200; ++version) {
      const Update update = arrivals->next(version);
      ASSERT_EQ(int64_t(update.gradients.size()), policy.k) << textOf(policy);
      ASSERT_GE(update.time, time);
      time = update.time;
      std::set<int64_t> workers;
      for (const HandedIn &gradient : update.gradients) {
        ASSERT_TRUE(tickets.insert(gradient.ticket).second) << textOf(policy) << ": a ticket is applied twice";
        ASSERT_TRUE(workers.insert(gradient.worker).second || isBatch(policy.kind));
        ASSERT_GE(gradient.read, policy.isAsync() ? 0 : version);
        ASSERT_LE(gradient.read, version);
        ASSERT_TRUE(policy.staleness < 0 || version - gradient.read <= policy.staleness) << textOf(policy);
      }
    }
    if (policy.isAsync()) { // all that were taken are applied, or in hand
      arrivals->meet(200);
      const Tickets left = arrivals->tickets();
      tickets.insert(left.again.begin(), left.again.end());
      ASSERT_EQ(int64_t(tickets.size()), left.next) << textOf(policy);
    }
  });
}

// What a worker reads for the gradient that it is at is what that gradient is applied with.
TEST(DrawnArrivals, SayWhatWorkersRead) {
  forAllPolicies(5, [](const SyncPolicy &policy) {
    if (!policy.isAsync())
      return;
    auto arrivals = drawnArrivals(policy, kSeed, 0, {});
    std::map<int64_t, int64_t> reads; // by worker
    for (int64_t version = 0; version < 50; ++version) {
      std::set<int64_t> seen;
      for (const HandedIn &gradient : arrivals->next(version).gradients)
        if (seen.insert(gradient.worker).second && reads.count(gradient.worker)) {
          ASSERT_EQ(gradient.read, reads.at(gradient.worker)) << textOf(policy);
        }
      reads.clear();
      for (int64_t worker = 0; worker < policy.workers; ++worker)
        if (arrivals->readBy(worker) >= 0)
          reads[worker] = arrivals->readBy(worker);
    }
  });
}

// A run that goes on from a meeting is the run that never stopped; what was in hand there is taken up first, in order.
TEST(DrawnArrivals, GoOnFromAMeeting) {
  forAllPolicies(5, [](const SyncPolicy &policy) {
    for (const int64_t meeting : {1, 7, 20}) {
      auto whole = drawnArrivals(policy, kSeed, 0, {});
      for (int64_t version = 0; version < meeting; ++version)
        whole->next(version);
      whole->meet(meeting);
      const Tickets left = whole->tickets();
      EXPECT_TRUE(std::is_sorted(left.again.begin(), left.again.end()));
      auto part = drawnArrivals(policy, kSeed, meeting, left);
      for (int64_t version = meeting; version < meeting + 30; ++version) {
        if (version == meeting + 11) {
          whole->meet(version);
          part->meet(version);
        }
        const Update update = whole->next(version);
        ASSERT_EQ(textOf(update), textOf(part->next(version))) << textOf(policy) << ", met at " << meeting;
        for (const HandedIn &gradient : update.gradients)
          ASSERT_GE(gradient.read, policy.isAsync() ? meeting : version) << "read before the meeting";
      }
      if (policy.isAsync() && !left.again.empty()) {
        auto first = drawnArrivals(policy, kSeed, meeting, left);
        std::set<int64_t> taken;
        for (int64_t version = meeting; version < meeting + 30; ++version)
          for (const HandedIn &gradient : first->next(version).gradients)
            taken.insert(gradient.ticket);
        for (const int64_t ticket : left.again)
          EXPECT_TRUE(taken.count(ticket)) << textOf(policy) << " lost ticket " << ticket;
      }
    }
  });
}

// Two meetings with nothing between them are one.
TEST(DrawnArrivals, MeetTwiceAsOnce) {
  const SyncPolicy policy = policyOf(SyncPolicy::KBatchAsync, 3, 4, 2);
  auto once = drawnArrivals(policy, kSeed, 0, {}), twice = drawnArrivals(policy, kSeed, 0, {});
  for (int64_t version = 0; version < 5; ++version) {
    once->next(version);
    twice->next(version);
  }
  once->meet(5);
  twice->meet(5);
  twice->meet(5);
  for (int64_t version = 5; version < 20; ++version)
    EXPECT_EQ(textOf(once->next(version)), textOf(twice->next(version)));
}

// Mean staleness: P - 1 of async, P / k - 1 of k_async, (P - 1) / k of k_batch_async, whatever the delays.
TEST(DrawnArrivals, HaveTheStalenessOfTheirPolicy) {
  for (const Delay &delay : {Delay{Delay::Exponential, {1}}, Delay{Delay::Shifted, {0.5, 0.5}},
                             Delay{Delay::Each, {1, 1.3, 0.7, 2.1, 1.7, 3}}})
    for (const SyncPolicy::Kind kind : {SyncPolicy::KAsync, SyncPolicy::KBatchAsync})
      for (int64_t k = 1; k <= 4; ++k) {
        SyncPolicy policy = policyOf(kind, k, 6);
        policy.delay = delay;
        auto arrivals = drawnArrivals(policy, kSeed, 0, {});
        int64_t sum = 0, count = 0;
        for (int64_t version = 0; version < 2'000; ++version)
          for (const HandedIn &gradient : arrivals->next(version).gradients)
            if (version >= 200) {
              sum += version - gradient.read;
              ++count;
            }
        const double expected = kind == SyncPolicy::KAsync ? 6.0 / double(k) - 1 : 5.0 / double(k);
        EXPECT_NEAR(double(sum) / double(count), expected, 0.05 * expected) << textOf(policy);
      }
}

} // namespace
