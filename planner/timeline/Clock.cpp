#include "planner/timeline/Clock.h"
#include <algorithm>
#include <cmath>
#include <utility>

namespace echelon::planner {

Prices::Prices(const Step &step, const Machine &machine, Issue issue)
    : host(machine.hostSeconds()), terms(step.terms.size()) {
  for (const Work &work : step.works)
    works.push_back(machine.seconds(work));
  const bool isBesideStages = std::any_of(step.messages.begin(), step.messages.end(), [](const Message &message) {
    return message.kind == Message::Kind::Send && message.group.nodes > 1;
  });
  for (const Message &message : step.messages) {
    const bool stalls = isBesideStages && message.kind != Message::Kind::Send && !message.isOfUpdate;
    stall.push_back(stalls ? machine.besideStages(message.group) : 0);
    messages.push_back(machine.seconds(message));
    late.push_back(message.kind == Message::Kind::Send ? 0 : machine.lateSeconds(message.group));
    overlap.push_back(std::min(machine.overlap(message.group), issue.mostOverlap));
    link.push_back(message.group.nodes > 1 ? 1 : 0);
  }
}

double Clock::end() const {
  double last = std::max(device, host);
  for (double link : links)
    last = std::max(last, link);
  return last;
}

void Clock::tell(Record *to, size_t stage, bool isOfTurn) {
  record = to;
  telling = Span();
  telling.stage = stage;
  telling.isOfTurn = isOfTurn;
}

void Clock::tell(Span::Kind kind, double begin, double end, size_t term) {
  if (!record || end <= begin)
    return;
  Span span = telling;
  span.kind = kind;
  span.begin = begin;
  span.end = end;
  span.term = term;
  record->add(span);
}

size_t Clock::tellMessage(const Action &action, double begin, double end) {
  if (!record)
    return Record::kNowhere;
  Span span = telling;
  span.kind = Span::Kind::Message;
  span.begin = begin;
  span.end = end;
  span.term = action.term;
  span.call = action.call;
  span.message = action.what;
  span.peer = action.kind == Action::Kind::Send ? action.peer : -1;
  return record->add(span);
}

void Clock::tellAgain(const Clock &before, double begin, int64_t times) {
  if (!record)
    return;
  Span span = telling;
  span.kind = Span::Kind::Again;
  span.begin = begin;
  span.end = device;
  span.from = before.since;
  span.to = told();
  span.times = times;
  record->add(span);
}

void Clock::waitUntil(double time, size_t term) {
  if (time <= device)
    return;
  tell(Span::Kind::Wait, device, time, term);
  terms[term] += time - device;
  device = time;
}

void Clock::take(double seconds, size_t term) {
  tell(Span::Kind::Call, device, device + seconds, term);
  terms[term] += seconds;
  device += seconds;
}

void Clock::add(const Piece &piece) {
  device += piece.seconds;
  for (size_t i = 0; i < piece.terms.size(); ++i)
    terms[i] += piece.terms[i];
}

double Clock::issued(int64_t calls) {
  const double seconds = double(calls) * prices->host;
  if (!issue.isAhead) {
    take(seconds, kHost);
    return device;
  }
  tell(Span::Kind::Host, host, host + seconds, kHost);
  host += seconds;
  return host;
}

double Clock::readyFor(const Action &message) const {
  return std::max({device,
                   issue.isAhead ? host + prices->stall[message.what] + double(message.calls) * prices->host : 0,
                   queues[message.term]});
}

/// When a message is done that is alone in its queue from `begin` on. What is under way in other queues of the link
/// goes on, each at half of its rate while both do.
double Clock::send(double begin, double seconds, size_t term, size_t link) {
  const double others = links[link] - begin;
  double end = begin + seconds;
  if (others > 0) {
    const double shared = std::min(seconds, others);
    end += shared;
    links[link] += shared;
    for (auto &[ticket, started] : tickets)
      for (Started &each : started)
        if (each.link == link && each.term != term && each.end > begin) {
          each.end += shared;
          if (each.span != Record::kNowhere)
            record->spans[each.span].end += shared;
        }
    for (size_t i = 0; i < queues.size(); ++i)
      if (i != term && queues[i] > begin)
        queues[i] += shared;
  }
  links[link] = std::max(links[link], end);
  return queues[term] = end;
}

void Clock::message(const Action &action, double begin) {
  at(action);
  if (issue.isAhead)
    host += prices->stall[action.what];
  const double called = issued(action.calls), ready = std::max({called, device, queues[action.term]});
  const double seconds = prices->messages[action.what] + prices->late[action.what];
  const size_t link = prices->link[action.what];
  if (action.ticket < 0) {
    waitUntil(called, kHost);
    waitUntil(ready, action.term);
    waitUntil(begin, kBubble);
    const double end = send(device, seconds, action.term, link);
    tellMessage(action, device, end);
    waitUntil(end, action.term);
    return;
  }
  begin = std::max(begin, ready);
  const double end = send(begin, seconds, action.term, link);
  tickets[action.ticket].push_back({end, action.term, link, tellMessage(action, begin, end)});
  if (const double beside = prices->overlap[action.what]; beside < 1)
    take((1 - beside) * seconds, action.term);
}

void Clock::wait(const Action &action) {
  at(action);
  auto kept = tickets.find(action.ticket);
  if (kept == tickets.end())
    return;
  size_t count = action.all ? kept->second.size() : std::min<size_t>(1, kept->second.size());
  for (; count; --count) {
    waitUntil(kept->second.front().end, kept->second.front().term);
    kept->second.pop_front();
  }
}

/// As much as since `before`, so many times more. What has been started in the meantime is started each time, what has
/// been waited for is waited for.
void Clock::skip(const Clock &before, int64_t times) {
  if (times < 1)
    return;
  const auto n = double(times);
  const double moved[2] = {links[0] - before.links[0], links[1] - before.links[1]}, begin = device;
  device += n * (device - before.device);
  telling.call = kNoCall;
  tellAgain(before, begin, times);
  host += n * (host - before.host);
  for (size_t i = 0; i < 2; ++i)
    links[i] += n * moved[i];
  for (size_t i = 0; i < terms.size(); ++i) {
    terms[i] += n * (terms[i] - before.terms[i]);
    queues[i] += n * (queues[i] - before.queues[i]);
  }
  for (auto &[ticket, started] : tickets) {
    auto known = before.tickets.find(ticket);
    const int64_t grown = int64_t(started.size()) - (known == before.tickets.end() ? 0 : int64_t(known->second.size()));
    for (int64_t i = 0; i < -grown * times && !started.empty(); ++i) {
      waitUntil(started.front().end, started.front().term);
      started.pop_front();
    }
    for (Started &each : started)
      each.span = Record::kNowhere; // it is of the last iteration now, which is told of with the others
    if (grown == 0)                 // an iteration starts as many as it waits for
      for (Started &each : started)
        each.end += n * moved[each.link];
    const std::vector<Started> made(grown > 0 ? started.end() - grown : started.end(), started.end());
    for (int64_t i = 1; i <= times; ++i)
      for (Started each : made) {
        each.end += double(i) * moved[each.link];
        started.push_back(each);
      }
  }
}

/// The first iterations as they are, until two take equally long; then as many of these as there are but one; and the
/// last one, which does nothing for a next one. Where no two do, pairs are taken to be like the last pair.
void Clock::loop(const Action &action) {
  constexpr int kMost = 8; // iterations in a row of which no two take equally long
  const Actions *const around = next;
  run(action.ahead);
  std::vector<double> moved;
  Clock twoBefore = *this;
  int unsteady = 0;
  for (int64_t i = 0; i < action.trips; ++i) {
    since = told();
    const Clock before = *this;
    const bool isLast = i + 1 == action.trips;
    next = isLast ? nullptr : &action.ahead;
    run(action.body);
    std::vector<double> now = clocks();
    const std::vector<double> then = before.clocks();
    for (size_t c = 0; c < now.size(); ++c)
      now[c] -= then[c];
    const bool isSteady = i > 0 && std::equal(now.begin(), now.end(), moved.begin(), [](double a, double b) {
                            return std::abs(a - b) <= 1e-9 * std::max(std::abs(a), std::abs(b));
                          });
    const int64_t like = std::max<int64_t>(0, action.trips - 2 - i);
    int64_t skipped = 0;
    unsteady = isSteady ? 0 : unsteady + 1;
    if (isSteady)
      skip(before, skipped = std::min(like, likeSince(before)));
    else if (unsteady >= kMost)
      skip(twoBefore, (skipped = std::min(like / 2, likeSince(twoBefore)) * 2) / 2);
    if (skipped)
      unsteady = 0;
    i += skipped;
    moved = std::move(now);
    twoBefore.become(before);
  }
  next = around;
}

/// How often what has been since `before` can be done again, as far as one sees: until a clock that is behind another
/// one is before it, as where a message is done that has been under way since before the loop.
int64_t Clock::likeSince(const Clock &before) const {
  const std::vector<double> now = clocks(), then = before.clocks();
  double least = 1e15;
  for (size_t x = 0; x < now.size(); ++x)
    for (size_t y = 0; y < now.size(); ++y) {
      const double behind = now[y] - now[x], nearer = now[x] - then[x] - (now[y] - then[y]);
      if (behind > -1e-12 && nearer > 1e-9 * (now[x] - then[x]))
        least = std::min(least, behind / nearer);
    }
  return std::max<int64_t>(0, int64_t(least) - 2);
}

std::vector<double> Clock::clocks() const {
  std::vector<double> all = queues;
  all.push_back(device);
  if (issue.isAhead)
    all.push_back(host);
  return all;
}

void Clock::become(const Clock &other) {
  device = other.device;
  host = other.host;
  links[0] = other.links[0];
  links[1] = other.links[1];
  queues = other.queues;
  terms = other.terms;
  tickets = other.tickets;
  since = other.since;
}

void Clock::run(const Actions &actions) {
  for (const Action &action : actions)
    run(action);
}

void Clock::run(const Action &action) {
  at(action);
  switch (action.kind) {
  case Action::Kind::Work:
    waitUntil(issued(action.calls), kHost);
    take(prices->works[action.what], action.term);
    break;
  case Action::Kind::Message:
    message(action, readyFor(action));
    break;
  case Action::Kind::Wait:
    wait(action);
    break;
  case Action::Kind::Loop:
    loop(action);
    break;
  case Action::Kind::Next:
    if (next)
      run(*next);
    break;
  case Action::Kind::Send:
  case Action::Kind::Receive: {
    const double called = issued(action.calls);
    if (issue.isAhead && action.kind == Action::Kind::Send)
      waitUntil(called, kHost);
    if (pieces) {
      pieces->push_back({0, {}, &action, 0, 0});
      closePiece();
    }
    break;
  }
  case Action::Kind::Turns: // of several stages: timeOf
    for (size_t body : action.turns->order)
      run(action.turns->bodies[body]);
    break;
  }
}

void Clock::closePiece() {
  Piece &piece = pieces->back();
  piece.seconds = device - mark;
  piece.terms = terms;
  for (size_t i = 0; i < terms.size(); ++i)
    piece.terms[i] -= atMark[i];
  piece.from = fromMark;
  piece.to = fromMark = told();
  mark = device;
  atMark = terms;
}

std::vector<Piece> Clock::runTurn(const Actions &turn) {
  std::vector<Piece> made;
  Record *const whole = std::exchange(record, nullptr); // the first one only comes before one like it
  run(turn);
  record = whole;
  fromMark = told();
  mark = device;
  atMark = terms;
  pieces = &made;
  run(turn);
  made.push_back({});
  closePiece();
  pieces = nullptr;
  return made;
}

void Clock::takeOver(const Clock &turn) {
  for (const auto &[ticket, started] : turn.tickets)
    for (Started each : started) {
      each.end += device - turn.device;
      each.span = Record::kNowhere;
      links[each.link] = std::max(links[each.link], each.end);
      queues[each.term] = std::max(queues[each.term], each.end);
      tickets[ticket].push_back(each);
    }
}

} // namespace echelon::planner
