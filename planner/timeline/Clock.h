// The clocks of one rank: its device's, that of the host which issues its calls, those of its links.
#pragma once
#include "planner/timeline/Timeline.h"
#include <deque>

namespace echelon::planner {

/// What the calls of a step take, asked once each.
struct Prices {
  Prices(const Step &step, const Machine &machine, Issue issue);

  std::vector<double> works, messages; ///< seconds
  std::vector<double> late;            ///< of a message: seconds until its last rank is there
  std::vector<double> stall;           ///< of a message: seconds that the host waits with it
  std::vector<double> overlap;         ///< of a message, if it is started: the part that runs beside compute
  std::vector<size_t> link;            ///< of a message: 0 within a node, 1 between nodes
  double host = 0;                     ///< seconds a call
  size_t terms = 0;
};

/// What a turn does up to where it meets another stage.
struct Piece {
  double seconds = 0;           ///< of the device
  std::vector<double> terms;    ///< where they went
  const Action *then = nullptr; ///< a send or a receive; null: the turn ends
  size_t from = 0, to = 0;      ///< in the record
};

class Clock {
public:
  Clock(const Prices &prices, Issue issue) : queues(prices.terms), terms(prices.terms), prices(&prices), issue(issue) {}

  void run(const Actions &actions);
  void run(const Action &action);
  /// Tells of all that is done from here on, as this stage; null: no longer. `isOfTurn`: it is done for all turns like
  /// it.
  void tell(Record *to, size_t stage, bool isOfTurn = false);
  /// What is done next is of this action.
  void at(const Action &action) { telling.call = action.call; }
  /// A message of this action is under way then. Its span, or kNowhere.
  size_t tellMessage(const Action &action, double begin, double end);
  /// When a message could begin, as far as this rank is concerned.
  double readyFor(const Action &message) const;
  /// A message that begins at this time, not before readyFor.
  void message(const Action &action, double begin);
  /// The device does nothing before this time; what it waits is counted under a term.
  void waitUntil(double time, size_t term);
  void add(const Piece &piece);
  /// What a turn, which ended as `turn` does, has started and nobody has waited for.
  void takeOver(const Clock &turn);
  /// When all that has been issued is done.
  double end() const;
  /// Runs a turn that follows one like it, and cuts it where it meets other stages; that takes no time here.
  std::vector<Piece> runTurn(const Actions &turn);

  double device = 0, host = 0;
  double links[2] = {0, 0};   ///< when nothing is under way any more
  std::vector<double> queues; ///< of the messages of each term: the same; they come one after the other
  std::vector<double> terms;  ///< seconds of the device

private:
  struct Started {
    double end = 0;
    size_t term = 0, link = 0;
    size_t span = Record::kNowhere;
  };

  double issued(int64_t calls); ///< when the device can begin with what so many calls issue
  void take(double seconds, size_t term);
  double send(double begin, double seconds, size_t term, size_t link);
  void loop(const Action &action);
  void wait(const Action &action);
  void skip(const Clock &before, int64_t times);
  void tell(Span::Kind kind, double begin, double end, size_t term);
  void tellAgain(const Clock &before, double begin, int64_t times);
  size_t told() const { return record ? record->spans.size() : 0; }
  int64_t likeSince(const Clock &before) const;
  std::vector<double> clocks() const;
  void closePiece();
  void become(const Clock &other);

  const Prices *prices;
  Issue issue;
  std::map<int64_t, std::deque<Started>> tickets; ///< by ticket, in the order in which they were started
  const Actions *next = nullptr;                  ///< what Next does
  std::vector<Piece> *pieces = nullptr;           ///< where sends and receives end one
  double mark = 0;                                ///< where the piece begins
  std::vector<double> atMark;                     ///< terms there
  Record *record = nullptr;
  Span telling;        ///< what all that is told has in common
  size_t fromMark = 0; ///< of the record, there
  size_t since = 0;    ///< of the record: where an iteration begins, in copies of the clock from then
};

} // namespace echelon::planner
