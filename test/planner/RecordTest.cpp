// What is told of a step: it fills each device's time without a gap, and what it says of terms and calls is what the
// step takes.
#include "planner/timeline/Timeline.h"
#include "runtime/program/Turns.h"
#include "test/planner/PlainMachine.h"
#include "gtest/gtest.h"
#include <algorithm>
#include <map>
#include <random>

using namespace echelon::planner;
using echelon::runtime::stageOrderNamed;

namespace {

constexpr size_t kProducts = 2, kOverDp = 3, kOverPp = 4, kOverTp = 5;

struct Told : Step {
  Told() { terms = {"host", "bubble", "products", "messages over dp", "messages over pp", "messages over tp"}; }

  Action work(double seconds) {
    Work made;
    made.kind = Work::Kind::Product;
    made.flops = seconds;
    works.push_back(made);
    return action(Action::Kind::Work, works.size() - 1, kProducts);
  }
  Action message(double seconds, int64_t ticket = -1, size_t term = kOverDp) {
    Message made;
    made.kind = Message::Kind::Send;
    made.bytes = seconds;
    made.group.ranks = made.group.perNode = 2;
    messages.push_back(made);
    Action each = action(Action::Kind::Message, messages.size() - 1, term);
    each.ticket = ticket;
    return each;
  }
  Action neighbor(Action::Kind kind, double seconds, size_t peer) {
    Action each = message(seconds, kind == Action::Kind::Send ? 0 : -1, kOverPp);
    each.kind = kind;
    each.peer = int64_t(peer);
    return each;
  }
  Action wait(int64_t ticket, bool all = true) {
    Action each = action(Action::Kind::Wait, 0, 0);
    each.ticket = ticket;
    each.all = all;
    return each;
  }
  static Action loop(int64_t trips, Actions body) {
    Action each;
    each.kind = Action::Kind::Loop;
    each.trips = trips;
    each.body = std::move(body);
    return each;
  }
  /// Stages that take their turns as 1f1b has it, each turn a loop of works.
  void pipeline(int64_t stageCount, int64_t micro, double sent) {
    for (int64_t s = 0; s < stageCount; ++s) {
      auto turns = std::make_shared<Turns>();
      for (const int64_t by : {1, -1}) {
        Actions body;
        if (s - by >= 0 && s - by < stageCount)
          body.push_back(neighbor(Action::Kind::Receive, sent, size_t(s - by)));
        body.push_back(loop(5, {work(1), work(0.5)}));
        if (s + by >= 0 && s + by < stageCount)
          body.push_back(neighbor(Action::Kind::Send, sent, size_t(s + by)));
        turns->bodies.push_back(std::move(body));
      }
      for (const auto &turn : stageOrderNamed("1f1b")->turns(s, stageCount, micro, 1))
        turns->order.push_back(size_t(turn.pass));
      Action all;
      all.kind = Action::Kind::Turns;
      all.turns = std::move(turns);
      stages.push_back({all, work(2), message(0.25)});
    }
  }

  size_t calls = 0;

private:
  Action action(Action::Kind kind, size_t what, size_t term) {
    Action each;
    each.kind = kind;
    each.what = what;
    each.term = term;
    each.call = calls++;
    return each;
  }
};

bool isOfDevice(const Span &span) { return span.kind != Span::Kind::Host && span.kind != Span::Kind::Message; }
bool isCall(const Span &span) { return span.kind == Span::Kind::Call || span.kind == Span::Kind::Wait; }

/// Nothing is told twice or left out: on each device one span ends where the next begins, from 0 to the step's end.
void expectNoGap(const Record &record, size_t stages, double seconds) {
  for (size_t s = 0; s < stages; ++s) {
    double at = 0;
    for (const Span &span : record.spans)
      if (span.stage == s && isOfDevice(span) && !span.isOfTurn) {
        EXPECT_NEAR(span.begin, at, 1e-9);
        at = span.end;
      }
    EXPECT_NEAR(at, seconds, 1e-9) << "stage " << s;
  }
}

/// What spans say of each term is what the step says of it.
void expectTerms(const Record &record, const StepTime &time, size_t stages) {
  std::vector<double> terms(time.terms.size());
  const std::vector<double> counts = record.counts();
  for (size_t i = 0; i < counts.size(); ++i)
    if (isCall(record.spans[i]))
      terms[record.spans[i].term] += counts[i] * (record.spans[i].end - record.spans[i].begin) / double(stages);
  for (size_t t = 0; t < terms.size(); ++t)
    EXPECT_NEAR(terms[t], time.terms[t], 1e-9 * time.seconds) << "term " << t;
}

std::map<size_t, double> byCall(const Record &record, size_t stage) {
  std::map<size_t, double> seconds;
  const std::vector<double> counts = record.counts();
  for (size_t i = 0; i < counts.size(); ++i)
    if (isCall(record.spans[i]) && record.spans[i].stage == stage)
      seconds[record.spans[i].call] += counts[i] * (record.spans[i].end - record.spans[i].begin);
  return seconds;
}

/// A message that is started is told in its queue; on the device only the wait for what is left of it, which is the
/// wait's call.
TEST(Record, StartedMessage) {
  Told step;
  step.stages = {{step.message(5, 0), step.work(3), step.wait(0), step.work(1)}};
  Record record;
  const StepTime time = timeOf(step, plainMachine(), {}, &record);
  ASSERT_EQ(record.spans.size(), 4u);
  const Span &message = record.spans[0], &work = record.spans[1], &wait = record.spans[2];
  EXPECT_EQ(message.kind, Span::Kind::Message);
  EXPECT_EQ(message.term, kOverDp);
  EXPECT_EQ(message.begin, 0);
  EXPECT_EQ(message.end, 5);
  EXPECT_EQ(work.kind, Span::Kind::Call);
  EXPECT_EQ(work.end, 3);
  EXPECT_EQ(wait.kind, Span::Kind::Wait);
  EXPECT_EQ(wait.call, 2u);
  EXPECT_EQ(wait.begin, 3);
  EXPECT_EQ(wait.end, 5);
  expectNoGap(record, 1, time.seconds);
}

/// Two messages that share a link end later than they would alone, also the one that was told first.
TEST(Record, SharedLink) {
  Told step;
  step.stages = {{step.message(4, 0), step.message(2, 1, kOverTp), step.wait(0), step.wait(1)}};
  Record record;
  const StepTime time = timeOf(step, plainMachine(), {}, &record);
  EXPECT_EQ(record.spans[0].end, 6);
  EXPECT_EQ(record.spans[1].end, 4);
  EXPECT_EQ(time.seconds, 6);
}

/// A loop in a loop: a few iterations are told, and how often they are repeated; calls and terms come to what the step
/// takes.
TEST(Record, LoopsAreToldOnce) {
  Told step;
  step.stages = {{Told::loop(1000, {Told::loop(96, {step.message(0.5, 0), step.work(1), step.wait(0)}), step.work(3)}),
                  step.work(2)}};
  Record record;
  const StepTime time = timeOf(step, plainMachine(0.01), {}, &record);
  EXPECT_LT(record.spans.size(), 400u);
  EXPECT_TRUE(std::any_of(record.spans.begin(), record.spans.end(),
                          [](const Span &span) { return span.kind == Span::Kind::Again && span.times > 900; }));
  expectNoGap(record, 1, time.seconds);
  expectTerms(record, time, 1);
  EXPECT_NEAR(byCall(record, 0)[1], 96'000.02, 1e-6); // of the work inside; the host issues ahead but once
}

/// Turns of a pipeline: each is told, what it does once for all like it, bubbles where the stage waits for another.
TEST(Record, Pipeline) {
  Told step;
  step.pipeline(4, 12, 0.125);
  Record record;
  const StepTime time = timeOf(step, plainMachine(), {}, &record);
  expectNoGap(record, 4, time.seconds);
  expectTerms(record, time, 4);
  int pieces = 0, bubbles = 0;
  for (const Span &span : record.spans) {
    pieces += span.kind == Span::Kind::Piece && span.stage == 2;
    bubbles += span.kind == Span::Kind::Wait && span.term == kBubble && span.stage == 3;
  }
  EXPECT_EQ(pieces, 2 * 12);
  EXPECT_GE(bubbles, 1);
  EXPECT_GT(time.bubble, 0);
  const auto sent = std::find_if(record.spans.begin(), record.spans.end(),
                                 [](const Span &span) { return span.kind == Span::Kind::Message && span.peer == 1; });
  ASSERT_NE(sent, record.spans.end());
  EXPECT_NEAR(sent->end - sent->begin, 0.125, 1e-12);
}

/// Of loops of any works, messages and waits, in loops, the same holds.
TEST(Record, RandomLoops) {
  std::mt19937 random(11);
  auto below = [&](unsigned n) { return int64_t(random() % n); };
  for (int trial = 0; trial < 200; ++trial) {
    Told step;
    Actions body;
    for (int64_t i = 2 + below(6); i; --i) {
      const double seconds = double(1 + below(20)) / 4;
      const int64_t ticket = below(3);
      switch (below(4)) {
      case 0:
        body.push_back(step.work(seconds));
        break;
      case 1:
        body.push_back(step.message(seconds, -1, size_t(3 + below(3))));
        break;
      case 2:
        body.push_back(step.message(seconds, ticket, size_t(3 + ticket)));
        break;
      default:
        body.push_back(step.wait(ticket, below(2)));
      }
    }
    if (below(2))
      body = {Told::loop(2 + below(40), body), step.work(1)};
    step.stages = {{step.message(5, 0), Told::loop(100, body), step.wait(0), step.wait(1), step.wait(2), step.work(1)}};
    for (const double host : {0.0, 0.5}) {
      Record record;
      const StepTime time = timeOf(step, plainMachine(host), {}, &record);
      expectNoGap(record, 1, time.seconds);
      expectTerms(record, time, 1);
      ASSERT_FALSE(HasFailure()) << "trial " << trial << " host " << host;
    }
  }
}

/// Nobody's record changes what a step takes.
TEST(Record, OnlyListens) {
  Told step;
  step.pipeline(3, 7, 0.5);
  Record record;
  const StepTime told = timeOf(step, plainMachine(0.001), {}, &record), untold = timeOf(step, plainMachine(0.001), {});
  EXPECT_EQ(told.seconds, untold.seconds);
  EXPECT_EQ(told.terms, untold.terms);
}

/// A record that is full says so, and nothing else goes wrong.
TEST(Record, Full) {
  Told step;
  Actions body;
  for (int i = 0; i < 1000; ++i)
    body.push_back(step.work(1 + i));
  auto turns = std::make_shared<Turns>();
  turns->bodies = {body};
  turns->order.assign(Record::kMost / 1000 + 1, 0);
  Action all;
  all.kind = Action::Kind::Turns;
  all.turns = turns;
  step.stages = {{all}};
  Record record;
  timeOf(step, plainMachine(), {}, &record);
  EXPECT_TRUE(record.isFull());
  EXPECT_EQ(record.spans.size(), Record::kMost);
}

} // namespace
