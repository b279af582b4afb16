#include "planner/timeline/Step.h"

namespace echelon::planner {

namespace {
class Counter {
public:
  Counter(Counts &counts, Within within) : counts(counts), within(within) {}

  void count(const Actions &actions, int64_t times) {
    for (const Action &action : actions)
      count(action, times);
  }

private:
  void count(const Action &action, int64_t times) {
    switch (action.kind) {
    case Action::Kind::Work:
      counts.works[action.what] += times;
      counts.calls += times * action.calls;
      break;
    case Action::Kind::Message:
    case Action::Kind::Send:
      counts.messages[action.what] += times;
      counts.calls += times * action.calls;
      break;
    case Action::Kind::Receive:
      counts.calls += times * action.calls;
      break;
    case Action::Kind::Loop:
      count(action.ahead, times * action.trips);
      count(action.body, times * action.trips);
      break;
    case Action::Kind::Turns:
      if (within == Within::All)
        for (size_t body : action.turns->order)
          count(action.turns->bodies[body], times);
      break;
    case Action::Kind::Wait:
    case Action::Kind::Next: // counted with what is ahead
      break;
    }
  }

  Counts &counts;
  Within within;
};
} // namespace

Counts countsOf(const Step &step, const Actions &actions, Within within) {
  Counts counts;
  counts.works.resize(step.works.size());
  counts.messages.resize(step.messages.size());
  Counter(counts, within).count(actions, 1);
  return counts;
}

} // namespace echelon::planner
