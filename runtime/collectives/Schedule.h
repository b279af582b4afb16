// A collective over messages, written down as rounds of verbs: send, receive, then reduce and copy.
//
// A schedule is made once per call and then run to the end, or moved on now and then while the rank computes: the same
// text serves the blocking and the asynchronous form, on every transport.
#pragma once

#include "runtime/collectives/Collectives.h"
#include "runtime/transport/Transport.h"

#include <deque>
#include <memory>
#include <string>
#include <vector>

namespace echelon::runtime {

class Schedule final : public Background {
public:
  Schedule(Transport &transport, const Group &group, const CollectiveCall &call);
  ~Schedule() override { transport.removeBackground(*this); }
  Schedule(const Schedule &) = delete;

  // What the algorithms read.
  int places() const { return group.size(); }
  int place() const { return group.index; }
  const CollectiveCall call;
  size_t elementBytes() const { return bytesOf(call.type); }
  const char *in() const { return static_cast<const char *>(call.in); }
  char *out() const { return static_cast<char *>(call.out); }

  // The verbs; counts are in elements, peers are places in the group. All messages of a round are under way together;
  // its reductions and copies follow, in order, when all have come.
  void send(int to, const void *data, int64_t count);
  void receive(int from, void *data, int64_t count);
  void sendBytes(int to, const void *data, int64_t bytes);
  void receiveBytes(int from, void *data, int64_t bytes);
  /// target = left op right; target may be either.
  void reduce(void *target, const void *left, const void *right, int64_t count);
  void copy(void *target, const void *source, int64_t count);
  /// Elements of other types than the call's: does `how`(target, source, count).
  using Pass = void (*)(void *, const void *, int64_t);
  void pass(Pass how, void *target, const void *source, int64_t count);
  /// Between rows of `count` elements, one after the other, and the user's buffer with a row for each place, in runs
  /// or not.
  void copyRowsIn(void *rows);
  void copyRowsOut(const void *rows);
  void nextRound();
  /// Memory for `count` elements that lives as long as the schedule.
  char *scratch(int64_t count);
  char *scratchBytes(int64_t bytes);

  /// Goes on as far as possible without waiting; true at the end.
  bool advance() override;
  /// Lets other communication of this rank move the schedule on, until it ends.
  void runInBackground();
  /// Goes on to the end.
  void finish();

private:
  struct Message {
    bool isSend;
    int peer;
    void *data;
    size_t bytes;
  };
  struct Local {
    void *target;
    const void *left, *right; // right null: a copy
    int64_t count;
    Pass how = nullptr; // null: a reduction or a copy
  };
  struct Round {
    std::vector<Message> messages;
    std::vector<Local> locals;
  };

  void beginRound();
  bool finishRound(bool mayWait);

  Transport &transport;
  Group group;
  std::string label;
  int tag;
  std::vector<Round> rounds;
  std::deque<std::vector<char>> scratches;
  size_t current = 0;
  bool isBegun = false;
  std::vector<Request> pending;
};

/// The rounds of a call by one of the algorithms over messages. What there is none of ends the run.
std::unique_ptr<Schedule> scheduleOf(Transport &transport, const Group &group, const CollectiveCall &call,
                                     Algorithm algorithm);

} // namespace echelon::runtime
