// Steps whose times can be reckoned by hand: a device of 1 flop/s and a link of 1 byte/s, so that flops and bytes are
// seconds.
#include "planner/timeline/Timeline.h"
#include "runtime/program/Turns.h"
#include "test/planner/PlainMachine.h"
#include "gtest/gtest.h"
#include <random>

using namespace echelon::planner;
using echelon::runtime::stageOrderNamed;

namespace {

/// Makes steps: works of so many seconds, sends of so many.
struct Maker {
  Maker() { step.terms = {"host", "bubble", "products", "messages over dp", "messages over pp", "messages over tp"}; }

  Action work(double seconds) {
    Work made;
    made.kind = Work::Kind::Product;
    made.flops = seconds;
    step.works.push_back(made);
    Action action;
    action.what = step.works.size() - 1;
    action.term = 2;
    return action;
  }
  Action message(double seconds, int64_t ticket = -1, size_t term = 3) {
    Message made;
    made.kind = Message::Kind::Send;
    made.bytes = seconds;
    made.group.ranks = made.group.perNode = 2;
    step.messages.push_back(made);
    Action action;
    action.kind = Action::Kind::Message;
    action.what = step.messages.size() - 1;
    action.term = term;
    action.ticket = ticket;
    return action;
  }
  Action neighbor(Action::Kind kind, double seconds, size_t peer) {
    Action action = message(seconds, kind == Action::Kind::Send ? 0 : -1, 4);
    action.kind = kind;
    action.peer = int64_t(peer);
    return action;
  }
  static Action wait(int64_t ticket, bool all = true) {
    Action action;
    action.kind = Action::Kind::Wait;
    action.ticket = ticket;
    action.all = all;
    return action;
  }
  static Action loop(int64_t trips, Actions body, Actions ahead = {}) {
    Action action;
    action.kind = Action::Kind::Loop;
    action.trips = trips;
    action.body = std::move(body);
    action.ahead = std::move(ahead);
    return action;
  }
  static Action next() {
    Action action;
    action.kind = Action::Kind::Next;
    return action;
  }

  /// Stages of a pipeline whose passes through a chunk take so long, and messages between them.
  void pipeline(const std::string &schedule, int64_t micro, int64_t chunks, const std::vector<double> &forward,
                double backwards, double sent = 0) {
    const auto stages = int64_t(forward.size());
    const auto *order = stageOrderNamed(schedule);
    const bool hasWeights = schedule == "zero_bubble";
    for (int64_t s = 0; s < stages; ++s) {
      auto turns = std::make_shared<Turns>();
      for (int64_t pass = 0; pass < (hasWeights ? 3 : 2); ++pass)
        for (int64_t chunk = 0; chunk < chunks; ++chunk) {
          Actions body;
          const int64_t by = pass == 0 ? 1 : -1, places = stages * chunks, place = chunk * stages + s;
          if (pass < 2 && place - by >= 0 && place - by < places)
            body.push_back(neighbor(Action::Kind::Receive, sent, size_t((s - by + stages) % stages)));
          body.push_back(work(pass == 0 ? forward[size_t(s)] : backwards * forward[size_t(s)] / (hasWeights ? 2 : 1)));
          if (pass < 2 && place + by >= 0 && place + by < places)
            body.push_back(neighbor(Action::Kind::Send, sent, size_t((s + by + stages) % stages)));
          turns->bodies.push_back(std::move(body));
        }
      for (const auto &turn : order->turns(s, stages, micro, chunks))
        turns->order.push_back(size_t(turn.pass) * size_t(chunks) + size_t(turn.chunk));
      Action action;
      action.kind = Action::Kind::Turns;
      action.turns = std::move(turns);
      step.stages.push_back({action});
    }
  }

  StepTime time(const Machine &machine = plainMachine(), Issue issue = {}) { return timeOf(step, machine, issue); }

  Step step;
};

double sumOf(const StepTime &time) {
  double sum = 0;
  for (double term : time.terms)
    sum += term;
  return sum;
}

/// Works and messages that nobody starts take their times one after the other.
TEST(Timeline, OneAfterTheOther) {
  Maker make;
  make.step.stages = {{make.work(3), make.message(2), make.work(4)}};
  const StepTime time = make.time();
  EXPECT_DOUBLE_EQ(time.seconds, 9);
  EXPECT_DOUBLE_EQ(time.terms[2], 7);
  EXPECT_DOUBLE_EQ(time.terms[3], 2);
}

/// A started message runs beside compute until its wait: what is left of it then is exposed.
TEST(Timeline, StartedMessageRunsBesideCompute) {
  Maker make;
  make.step.stages = {{make.message(5, 0), make.work(3), Maker::wait(0), make.work(1)}};
  const StepTime time = make.time();
  EXPECT_DOUBLE_EQ(time.seconds, 6);
  EXPECT_DOUBLE_EQ(time.terms[3], 2);
}

/// Where cores that compute also move messages, none of a started one is free.
TEST(Timeline, NothingRunsBesideOnSharedCores) {
  Maker make;
  make.step.stages = {{make.message(5, 0), make.work(3), Maker::wait(0), make.work(1)}};
  const StepTime time = make.time(plainMachine(), {false, 0});
  EXPECT_DOUBLE_EQ(time.seconds, 9);
  EXPECT_DOUBLE_EQ(time.terms[3], 5);
}

/// The host issues a call every second: short calls wait for it, long ones hide it.
TEST(Timeline, HostBoundsShortCalls) {
  Maker make;
  make.step.stages = {{Maker::loop(100, {make.work(0.25)})}};
  const StepTime time = make.time(plainMachine(1));
  EXPECT_NEAR(time.seconds, 100.25, 1e-9);
  EXPECT_NEAR(time.terms[kHost], 75.25, 1e-9);
  Maker longer;
  longer.step.stages = {{Maker::loop(100, {longer.work(4)})}};
  EXPECT_NEAR(longer.time(plainMachine(1)).seconds, 401, 1e-9);
}

/// On a machine whose host is the device, each call takes both times.
TEST(Timeline, HostIsTheDevice) {
  Maker make;
  make.step.stages = {{Maker::loop(100, {make.work(4)})}};
  EXPECT_NEAR(make.time(plainMachine(1), {false, 0}).seconds, 500, 1e-9);
}

/// Messages over the same axes come one after the other; over others, a small one does not wait for a large one, which
/// it slows down by as much as it takes.
TEST(Timeline, QueuesShareALink) {
  Maker same;
  same.step.stages = {{same.message(10, 0), same.message(1), Maker::wait(0)}};
  const StepTime one = same.time();
  EXPECT_DOUBLE_EQ(one.seconds, 11);
  Maker other;
  other.step.stages = {{other.message(10, 0), other.message(1, -1, 5), other.work(3), Maker::wait(0)}};
  const StepTime two = other.time();
  EXPECT_DOUBLE_EQ(two.terms[5], 2); // at half of the rate
  EXPECT_DOUBLE_EQ(two.terms[3], 6); // from 5 to 11
  EXPECT_DOUBLE_EQ(two.seconds, 11);
}

/// A long loop is as many times its steady iteration, whatever the first ones do: here each starts a message that the
/// link takes longer for than the iteration computes, and all are waited for behind it.
TEST(Timeline, LoopIsItsSteadyIterations) {
  Maker make;
  make.step.stages = {{Maker::loop(1000, {make.work(2), make.message(3, 0)}), Maker::wait(0)}};
  const StepTime time = make.time();
  EXPECT_NEAR(time.seconds, 2 + 3000, 1e-6);
  EXPECT_NEAR(time.terms[2], 2000, 1e-6);
  EXPECT_NEAR(time.terms[3], 1002, 1e-6);
}

/// The same walked iteration by iteration.
TEST(Timeline, SkippedIterationsAreThoseThatAreWalked) {
  for (const double sent : {0.5, 2.0, 3.5}) {
    Maker whole, walked;
    const Action compute = whole.work(2), start = whole.message(sent, 0), other = whole.message(0.25, -1, 5);
    whole.step.stages = {{Maker::loop(50, {start, compute, other, Maker::wait(0, false)}), whole.work(1)}};
    walked.step = whole.step;
    walked.step.stages[0].clear();
    for (int i = 0; i < 50; ++i)
      for (const Action &action : {start, compute, other, Maker::wait(0, false)})
        walked.step.stages[0].push_back(action);
    walked.step.stages[0].push_back(whole.step.stages[0].back());
    EXPECT_NEAR(whole.time().seconds, walked.time().seconds, 1e-6) << sent;
  }
}

/// Of loops of any works, messages and waits, skipping iterations comes to what walking all of them does.
TEST(Timeline, RandomLoops) {
  std::mt19937 random(7);
  auto below = [&](unsigned n) { return int64_t(random() % n); };
  for (int trial = 0; trial < 300; ++trial) {
    Maker whole, walked;
    Actions body, ahead;
    for (int64_t i = 2 + below(6); i; --i) {
      const double seconds = double(1 + below(20)) / 4;
      const int64_t ticket = below(3);
      switch (below(4)) {
      case 0:
        body.push_back(whole.work(seconds));
        break;
      case 1:
        body.push_back(whole.message(seconds, -1, size_t(3 + below(3))));
        break;
      case 2:
        body.push_back(whole.message(seconds, ticket, size_t(3 + ticket)));
        break;
      default:
        body.push_back(Maker::wait(ticket, below(2)));
      }
    }
    const Action behind = whole.work(1), all[] = {Maker::wait(0), Maker::wait(1), Maker::wait(2)};
    walked.step = whole.step;
    whole.step.stages = {{whole.message(5, 0), Maker::loop(100, body), all[0], all[1], all[2], behind}};
    walked.step = whole.step;
    walked.step.stages[0] = {whole.step.stages[0].front()};
    for (int i = 0; i < 100; ++i)
      walked.step.stages[0].insert(walked.step.stages[0].end(), body.begin(), body.end());
    walked.step.stages[0].insert(walked.step.stages[0].end(), {all[0], all[1], all[2], behind});
    for (const double host : {0.0, 0.5}) {
      const StepTime a = whole.time(plainMachine(host)), b = walked.time(plainMachine(host));
      EXPECT_NEAR(a.seconds, b.seconds, 1e-6 * b.seconds) << "trial " << trial << " host " << host;
      EXPECT_NEAR(sumOf(a), a.seconds, 1e-6 * a.seconds) << "trial " << trial;
    }
  }
}

/// A pipeline of one stage is its turns, one after the other.
TEST(Timeline, OneStage) {
  Maker make;
  make.pipeline("1f1b", 8, 1, {1}, 2);
  EXPECT_DOUBLE_EQ(make.time().seconds, 24);
  EXPECT_DOUBLE_EQ(make.time().bubble, 0);
}

/// What is gathered ahead for the next iteration comes while this one computes: the first is waited for, and where
/// gathers take longer, all are.
TEST(Timeline, GathersAhead) {
  Maker hidden;
  hidden.step.stages = {
      {Maker::loop(100, {Maker::wait(0, false), Maker::next(), hidden.work(3)}, {hidden.message(2, 0)})}};
  EXPECT_NEAR(hidden.time().seconds, 2 + 300, 1e-6);
  Maker bound;
  bound.step.stages = {
      {Maker::loop(100, {Maker::wait(0, false), Maker::next(), bound.work(3)}, {bound.message(5, 0)})}};
  EXPECT_NEAR(bound.time().seconds, 500 + 3, 1e-6);
}

/// Equal stages wait (p - 1) / m of the time that they work, and with v chunks (p - 1) / (m v).
TEST(Timeline, BubbleOfEqualStages) {
  for (const char *schedule : {"gpipe", "1f1b"}) {
    Maker make;
    make.pipeline(schedule, 8, 1, {1, 1, 1, 1}, 2);
    const StepTime time = make.time();
    EXPECT_NEAR(time.seconds, 3 * (8 + 3), 1e-9) << schedule;
    EXPECT_NEAR(time.bubble, 3.0 / 8, 1e-9) << schedule;
  }
  for (int64_t chunks : {2, 4}) {
    Maker make;
    make.pipeline("interleaved", 8, chunks, std::vector<double>(4, 1.0 / double(chunks)), 2);
    const StepTime time = make.time();
    EXPECT_NEAR(time.bubble, 3.0 / double(8 * chunks), 1e-9) << chunks;
    EXPECT_NEAR(time.seconds, 3 * (8 + 3.0 / double(chunks)), 1e-9) << chunks;
  }
}

/// Gradients of weights fill what the last stages would wait: with forward, backward and weights of one unit each, a
/// stage waits p - 1 units (Qi et al., 2023, H1), a third of what it does in 1f1b.
TEST(Timeline, BubbleOfZeroBubble) {
  Maker make;
  make.pipeline("zero_bubble", 8, 1, {1, 1, 1, 1}, 2);
  EXPECT_NEAR(make.time().seconds, 3 * 8 + 3, 1e-9);
  EXPECT_NEAR(make.time().bubble, 3.0 / 24, 1e-9);
}

/// The slowest stage sets the pace. Beside its own work, 96, the last one waits for the first forward pass, 3, and
/// others for the last backward one, 6. The first one has three more forward passes to do before it waits for a
/// backward one: until 11, where it has worked for 8.
TEST(Timeline, SlowestStageSetsThePace) {
  const double expected[] = {96 + 3, 96 + 5, 96 + 7, 96 + 9};
  for (size_t slow = 0; slow < 4; ++slow) {
    std::vector<double> stages(4, 1);
    stages[slow] = 2;
    Maker make;
    make.pipeline("1f1b", 16, 1, stages, 2);
    EXPECT_NEAR(make.time().seconds, expected[slow], 1e-9) << slow;
    EXPECT_NEAR(make.time().busy[slow], 96, 1e-9);
  }
}

/// Messages between stages are waited for once each way down the pipeline, and hidden from then on where a stage has
/// other micro batches to work on: all forward passes first.
TEST(Timeline, MessagesOfAPipeline) {
  Maker make;
  make.pipeline("gpipe", 8, 1, {1, 1, 1, 1}, 2, 0.5);
  const StepTime time = make.time();
  EXPECT_NEAR(time.seconds, 3 * (8 + 3) + 2 * 3 * 0.5, 1e-9);
  EXPECT_NEAR(time.terms[4], (0.5 + 1 + 1 + 0.5) / 4, 1e-9); // of each stage's own neighbors; others' are a bubble
  EXPECT_NEAR(time.bubble, (12 - 0.75) / 24, 1e-9);
  EXPECT_NEAR(sumOf(time), time.seconds, 1e-9);
}

/// A message of ranks of all stages begins when the last of them is there.
TEST(Timeline, StagesJoin) {
  Maker make;
  Action joined = make.message(2);
  joined.joins = true;
  make.step.stages = {{make.work(1), joined, make.work(1)}, {make.work(5), joined}};
  const StepTime time = make.time();
  EXPECT_DOUBLE_EQ(time.seconds, 8);
  EXPECT_DOUBLE_EQ(time.terms[kBubble], (4 + 1) / 2.0);
  EXPECT_DOUBLE_EQ(sumOf(time), 8);
}

/// Counts go through loops, what is ahead of their iterations, and turns.
TEST(Timeline, Counts) {
  Maker make;
  make.step.stages = {{Maker::loop(5, {Maker::next(), make.work(1)}, {make.message(1)}), make.work(1)}};
  const Counts counts = countsOf(make.step, make.step.stages[0]);
  EXPECT_EQ(counts.works, (std::vector<int64_t>{5, 1}));
  EXPECT_EQ(counts.messages, (std::vector<int64_t>{5}));
  EXPECT_EQ(counts.calls, 11);
  Maker pipeline;
  pipeline.pipeline("1f1b", 8, 1, {1, 1}, 2);
  EXPECT_EQ(countsOf(pipeline.step, pipeline.step.stages[0]).works[0], 8);
  EXPECT_EQ(countsOf(pipeline.step, pipeline.step.stages[0], Within::OutsideTurns).works[0], 0);
}

} // namespace
