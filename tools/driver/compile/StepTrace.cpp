// The record is in order on each row of a stage: the simulation goes forward in time. What is told once and done many
// times is one event that says how often; the calls of the first of several like turns are inside of its event.
#include "tools/driver/compile/StepTrace.h"

#include "passes/cost/CallName.h"
#include "runtime/launch/Printable.h"
#include "runtime/program/Log.h"

#include <algorithm>
#include <cmath>
#include <ostream>
#include <set>

namespace echelon {

namespace {
using planner::Span;

std::string jsonString(const std::string &text) { return runtime::quoted(runtime::printable(text)); }

class Printer {
public:
  Printer(const StepCost &cost, const StepRecord &told, std::ostream &os) : cost(cost), told(told), os(os) {}
  void print();

private:
  enum Row { Step, Host, Device, Queues };

  void name(const char *what, size_t stage, size_t row, const std::string &text);
  void nameRows();
  size_t queueOf(const Span &span);
  void event(const std::string &text, const std::string &kind, size_t stage, size_t row, double begin, double end,
             const std::string &arguments);
  void print(const Span &span, double later);
  void printAgain(const Span &span, double later);
  void printPiece(const Span &span);
  std::string nameOf(const Span &span) const;
  std::string argumentsOf(const Span &span) const;
  std::string messageText(const planner::Message &message) const;

  const StepCost &cost;
  const StepRecord &told;
  std::ostream &os;
  std::vector<std::pair<size_t, int64_t>> queues;    // by row: term and other stage
  std::map<std::pair<size_t, size_t>, int64_t> ends; // of each row's last event, which following ones do not overlap
  std::set<std::pair<size_t, size_t>> pieces;        // stage and first span of those whose calls have been shown
  bool isFirst = true;
};

int64_t nanoseconds(double seconds) { return std::llround(1e9 * seconds); }

void Printer::name(const char *what, size_t stage, size_t row, const std::string &text) {
  const std::string of = "\"ph\": \"M\", \"pid\": " + std::to_string(stage) + ", \"tid\": " + std::to_string(row);
  os << (isFirst ? "\n" : ",\n") << "{\"name\": \"" << what << "_name\", " << of
     << ", \"args\": {\"name\": " << jsonString(text) << "}},\n{\"name\": \"" << what << "_sort_index\", " << of
     << ", \"args\": {\"sort_index\": " << (what == std::string("thread") ? row : stage) << "}}";
  isFirst = false;
}

size_t Printer::queueOf(const Span &span) {
  const std::pair<size_t, int64_t> key = {span.term, span.peer};
  const auto place = size_t(std::find(queues.begin(), queues.end(), key) - queues.begin());
  if (place == queues.size())
    queues.push_back(key);
  return Queues + place;
}

void Printer::nameRows() {
  const size_t stages = cost.step.stages.size();
  std::set<std::pair<size_t, size_t>> used; // stage and queue
  bool hasHost = false;
  for (const Span &span : told.record.spans) {
    hasHost |= span.kind == Span::Kind::Host;
    if (span.kind == Span::Kind::Message)
      used.insert({span.stage, queueOf(span)});
  }
  for (size_t s = 0; s < stages; ++s) {
    name("process", s, 0, stages == 1 ? "each rank" : "stage " + std::to_string(s));
    name("thread", s, Step, "steps");
    if (hasHost)
      name("thread", s, Host, "host");
    name("thread", s, Device, hasHost ? "device" : "operations");
  }
  for (const auto &[stage, row] : used) {
    const auto &[term, peer] = queues[row - Queues];
    name("thread", stage, row, cost.step.terms[term] + (peer < 0 ? "" : " to stage " + std::to_string(peer)));
  }
}

/// Whole nanoseconds, so that the end of an event is the begin of the next one.
void Printer::event(const std::string &text, const std::string &kind, size_t stage, size_t row, double begin,
                    double end, const std::string &arguments) {
  int64_t &last = ends[{stage, row}];
  const int64_t from = std::max(nanoseconds(begin + cost.dataSeconds), last);
  const int64_t to = nanoseconds(end + cost.dataSeconds);
  if (to <= from)
    return;
  last = to;
  char times[160];
  std::snprintf(times, sizeof times, "\"ts\": %.3f, \"dur\": %.3f, \"pid\": %zu, \"tid\": %zu", 1e-3 * double(from),
                1e-3 * double(to - from), stage, row);
  os << ",\n{\"name\": " << jsonString(text) << ", \"cat\": " << jsonString(kind) << ", \"ph\": \"X\", " << times
     << ", \"args\": {" << arguments << "}}";
}

std::string Printer::nameOf(const Span &span) const {
  if (span.kind == Span::Kind::Wait && (span.term == planner::kBubble || span.call == planner::kNoCall))
    return span.term == planner::kBubble ? "bubble" : "waiting: " + cost.step.terms[span.term];
  if (span.call == planner::kNoCall)
    return cost.step.terms[span.term];
  const rt::Cost call = llvm::cast<rt::Costed>(told.calls[span.call]).cost();
  const bool isHost = span.term == planner::kHost && span.kind != Span::Kind::Host;
  return (isHost ? "host: " : "") + callName(call);
}

std::string Printer::messageText(const planner::Message &message) const {
  std::string text = "\"op\": " + jsonString(planner::nameOf(message.kind)) +
                     ", \"bytes\": " + std::to_string(std::llround(message.bytes)) +
                     ", \"ranks\": " + std::to_string(message.group.ranks) +
                     ", \"link\": " + (message.group.nodes > 1 ? "\"between nodes\"" : "\"within a node\"");
  return message.algorithm.empty() ? text : text + ", \"algorithm\": " + jsonString(message.algorithm);
}

std::string Printer::argumentsOf(const Span &span) const {
  std::string text;
  if (span.call != planner::kNoCall)
    if (const std::string line = callLines(told.calls[span.call]); !line.empty())
      text = "\"line\": " + jsonString(line);
  if (span.kind == Span::Kind::Message)
    text += (text.empty() ? "" : ", ") + messageText(cost.step.messages[span.message]);
  return text;
}

/// One event for all iterations that are like those before; one on each row that has something in these.
void Printer::printAgain(const Span &span, double later) {
  const std::string times = std::to_string(span.times);
  char each[64];
  std::snprintf(each, sizeof each, ", \"each_s\": %.6g", (span.end - span.begin) / double(span.times));
  const std::string text = "the same " + times + (span.times == 1 ? " time more" : " times more");
  const std::string arguments = "\"repeated\": " + times + each;
  std::set<size_t> rows;
  for (size_t i = span.from; i < span.to; ++i)
    if (const Span &of = told.record.spans[i]; of.kind == Span::Kind::Message)
      rows.insert(queueOf(of));
    else if (of.kind == Span::Kind::Host)
      rows.insert(Host);
  for (size_t row : rows)
    event(text, "repeated", span.stage, row, span.begin + later, span.end + later, arguments);
  event(text, "repeated", span.stage, Device, span.begin + later, span.end + later, arguments);
}

void Printer::printPiece(const Span &span) {
  const auto &stage = cost.step.stages[span.stage];
  const auto action = std::find_if(stage.begin(), stage.end(), [](auto &each) { return each.turns != nullptr; });
  const size_t chunks = action->turns->chunks;
  static const char *const kPasses[] = {"forward", "backward", "gradients of weights"};
  std::string text =
      std::string(kPasses[std::min<size_t>(span.body / chunks, 2)]) + ", micro batch " + std::to_string(span.nth);
  if (chunks > 1)
    text += ", chunk " + std::to_string(span.body % chunks);
  const bool isToldBefore = !pieces.insert({span.stage, span.from}).second || span.from == span.to;
  event(text, "turn", span.stage, Device, span.begin, span.end,
        isToldBefore ? "\"operations\": \"those of the first turn like it\"" : "");
  if (isToldBefore)
    return;
  double first = 0; // of the device, in the simulation of this turn alone
  for (size_t i = span.from; i < span.to; ++i)
    if (const Span &of = told.record.spans[i]; of.kind != Span::Kind::Host && of.kind != Span::Kind::Message) {
      first = of.begin;
      break;
    }
  int64_t &last = ends[{span.stage, Device}];
  const int64_t end = last;
  last = nanoseconds(span.begin + cost.dataSeconds); // they lie inside
  for (size_t i = span.from; i < span.to; ++i)
    print(told.record.spans[i], span.begin - first);
  last = end;
}

void Printer::print(const Span &span, double later) {
  switch (span.kind) {
  case Span::Kind::Again:
    return printAgain(span, later);
  case Span::Kind::Piece:
    return printPiece(span);
  case Span::Kind::Host:
  case Span::Kind::Message:
  case Span::Kind::Call:
  case Span::Kind::Wait: {
    const bool isQueued = span.kind == Span::Kind::Message;
    const size_t row = isQueued ? queueOf(span) : span.kind == Span::Kind::Host ? size_t(Host) : size_t(Device);
    event(nameOf(span), cost.step.terms[span.term], span.stage, row, span.begin + later, span.end + later,
          argumentsOf(span));
  }
  }
}

void Printer::print() {
  os << "{\"displayTimeUnit\": \"ms\", \"traceEvents\": [";
  nameRows();
  char seconds[64];
  std::snprintf(seconds, sizeof seconds, "\"step_time_s\": %.9g", cost.time.seconds);
  for (size_t s = 0; s < cost.step.stages.size(); ++s) {
    event("step", "step", s, Step, -cost.dataSeconds, cost.time.seconds - cost.dataSeconds, seconds);
    event("the batch is read and put in place", "data", s, Device, -cost.dataSeconds, 0, "");
  }
  for (const Span &span : told.record.spans)
    if (!span.isOfTurn)
      print(span, 0);
  os << "\n]}\n";
}
} // namespace

void printTrace(const StepCost &cost, const StepRecord &told, std::ostream &os) { Printer(cost, told, os).print(); }

} // namespace echelon
