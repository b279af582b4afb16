#include "planner/timeline/Timeline.h"
#include "planner/timeline/Clock.h"
#include <algorithm>
#include <deque>
#include <numeric>

namespace echelon::planner {

namespace {

/// A stage in the middle of its turns.
struct Stage {
  const Turns *turns = nullptr;
  std::vector<std::vector<Piece>> pieces; ///< of each body
  std::vector<Clock> after;               ///< each body's clock when it has run
  std::vector<int64_t> done;              ///< how many turns with each body
  size_t turn = 0, piece = 0;
  bool isInside = false; ///< the piece has been worked; what follows it waits

  bool isDone() const { return turn == turns->order.size(); }
};

/// Messages from one stage to another: when they arrive, in order, and when the next one can leave.
struct Channel {
  std::deque<double> arrivals;
  double free = 0;
};

class Simulation {
public:
  Simulation(const Step &step, const Machine &machine, Issue issue, Record *record)
      : step(step), prices(step, machine, issue), issue(issue), record(record) {
    clocks.assign(step.stages.size(), Clock(prices, issue));
    for (size_t s = 0; s < clocks.size(); ++s)
      clocks[s].tell(record, s);
    at.assign(step.stages.size(), 0);
    busy.assign(step.stages.size(), 0);
  }

  StepTime run();

private:
  bool isMeeting(const Action &action) const {
    return step.stages.size() > 1 && (action.kind == Action::Kind::Turns || action.joins);
  }
  const Action *meetingOf(size_t stage) const {
    return at[stage] < step.stages[stage].size() ? &step.stages[stage][at[stage]] : nullptr;
  }
  void runTurns(const std::vector<const Action *> &actions);
  bool advance(size_t s, Stage &stage);
  void work(size_t s, Stage &stage, const Piece &piece);
  void join(const std::vector<const Action *> &actions);

  const Step &step;
  Prices prices;
  Issue issue;
  Record *record;
  std::vector<Clock> clocks;
  std::vector<size_t> at; ///< of each stage: the next of its actions
  std::vector<double> busy;
  std::map<std::pair<size_t, size_t>, Channel> channels; ///< by stages, from and to
  double working = 0, idle = 0;                          ///< of all stages, in turns
};

void Simulation::work(size_t s, Stage &stage, const Piece &piece) {
  const double begin = clocks[s].device;
  clocks[s].add(piece);
  working += piece.seconds;
  busy[s] += piece.seconds;
  stage.isInside = true;
  if (!record || piece.seconds <= 0)
    return;
  Span span;
  span.kind = Span::Kind::Piece;
  span.stage = s;
  span.begin = begin;
  span.end = clocks[s].device;
  span.from = piece.from;
  span.to = piece.to;
  span.body = stage.turns->order[stage.turn];
  span.nth = stage.done[span.body];
  record->add(span);
}

/// Whether the stage has gone on. It works on a piece, then meets another stage: what it sends leaves when the channel
/// is free, what it receives has to have come.
bool Simulation::advance(size_t s, Stage &stage) {
  Clock &clock = clocks[s];
  const size_t body = stage.turns->order[stage.turn];
  const Piece &piece = stage.pieces[body][stage.piece];
  if (!stage.isInside)
    work(s, stage, piece);
  if (!piece.then) {
    ++stage.done[body];
    ++stage.turn;
    stage.piece = 0;
    stage.isInside = false;
    return true;
  }
  const Action &action = *piece.then;
  clock.at(action);
  const double seconds = prices.messages[action.what];
  if (action.kind == Action::Kind::Send) {
    Channel &channel = channels[{s, size_t(action.peer)}];
    const double begin = std::max(clock.device, channel.free);
    channel.free = begin + seconds;
    channel.arrivals.push_back(channel.free);
    clock.tellMessage(action, begin, channel.free);
    if (action.ticket < 0)
      clock.waitUntil(channel.free, action.term);
    else if (const double beside = prices.overlap[action.what]; beside < 1)
      clock.waitUntil(clock.device + (1 - beside) * seconds, action.term);
  } else {
    Channel &channel = channels[{size_t(action.peer), s}];
    if (channel.arrivals.empty())
      return false;
    const double came = channel.arrivals.front();
    channel.arrivals.pop_front();
    const double sent = std::max(clock.device, came - seconds); // before that, the other stage was not ready
    idle += sent - clock.device;
    clock.waitUntil(sent, kBubble);
    clock.waitUntil(came, action.term);
  }
  ++stage.piece;
  stage.isInside = false;
  return true;
}

void Simulation::runTurns(const std::vector<const Action *> &actions) {
  std::vector<Stage> stages(actions.size());
  for (size_t s = 0; s < stages.size(); ++s) {
    stages[s].turns = actions[s]->turns.get();
    stages[s].done.resize(stages[s].turns->bodies.size());
    for (const Actions &body : stages[s].turns->bodies) {
      Clock turn(prices, issue);
      turn.tell(record, s, true);
      stages[s].pieces.push_back(turn.runTurn(body));
      stages[s].after.push_back(turn);
    }
  }
  double begin = clocks[0].end(), end = 0;
  for (Clock &clock : clocks) {
    clock.at({});
    clock.waitUntil(clock.host, kHost);
    begin = std::min(begin, clock.device);
  }
  for (const Clock &clock : clocks)
    idle += clock.device - begin;
  channels.clear();
  for (bool moved = true; moved;) {
    moved = false;
    for (size_t s = 0; s < stages.size(); ++s)
      while (!stages[s].isDone() && advance(s, stages[s]))
        moved = true;
  }
  for (size_t s = 0; s < stages.size(); ++s) {
    clocks[s].host = clocks[s].device;
    if (!stages[s].turns->order.empty())
      clocks[s].takeOver(stages[s].after[stages[s].turns->order.back()]);
    end = std::max(end, clocks[s].device);
  }
  for (const Clock &clock : clocks)
    idle += end - clock.device;
}

void Simulation::join(const std::vector<const Action *> &actions) {
  double begin = 0;
  for (size_t s = 0; s < actions.size(); ++s)
    begin = std::max(begin, clocks[s].readyFor(*actions[s]));
  for (size_t s = 0; s < actions.size(); ++s)
    clocks[s].message(*actions[s], begin);
}

StepTime Simulation::run() {
  for (bool moved = true; moved;) {
    moved = false;
    std::vector<const Action *> meeting;
    for (size_t s = 0; s < clocks.size(); ++s) {
      const Action *action = meetingOf(s);
      for (; action && !isMeeting(*action); action = meetingOf(s)) {
        clocks[s].run(*action);
        ++at[s];
        moved = true;
      }
      meeting.push_back(action);
    }
    const auto some = std::find_if(meeting.begin(), meeting.end(), [](const Action *action) { return action; });
    if (some == meeting.end())
      continue;
    const Action *first = *some;
    const bool isOne = std::all_of(meeting.begin(), meeting.end(), [&](const Action *action) {
      return action && action->kind == first->kind && action->what == first->what;
    });
    if (isOne && first->kind == Action::Kind::Turns)
      runTurns(meeting);
    else if (isOne)
      join(meeting);
    for (size_t s = 0; s < clocks.size(); ++s)
      if (meeting[s]) {
        if (!isOne && meeting[s]->kind != Action::Kind::Turns)
          clocks[s].run(*meeting[s]);
        ++at[s];
      }
    moved = true;
  }
  StepTime time;
  for (const Clock &clock : clocks)
    time.seconds = std::max(time.seconds, clock.end());
  time.terms.assign(step.terms.size(), 0);
  for (Clock &clock : clocks) {
    const double own = clock.end();
    clock.at({});
    clock.waitUntil(std::max(clock.device, std::min(own, clock.host)), kHost);
    clock.waitUntil(own, kHost);
    clock.waitUntil(time.seconds, kBubble);
    for (size_t i = 0; i < time.terms.size(); ++i)
      time.terms[i] += clock.terms[i] / double(clocks.size());
  }
  time.busy = busy;
  time.bubble = working > 0 ? idle / working : 0;
  time.workSeconds = prices.works;
  time.messageSeconds = prices.messages;
  return time;
}

} // namespace

StepTime timeOf(const Step &step, const Machine &machine, Issue issue, Record *record) {
  return Simulation(step, machine, issue, record).run();
}

} // namespace echelon::planner
