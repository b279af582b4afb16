// The rules of the policies: who works on which ticket, at which parameters, and when there is an update. Ties go to
// the lower worker.
#pragma once

#include "runtime/sync/Arrivals.h"

namespace echelon::runtime {

class Rules {
public:
  Rules(const SyncPolicy &policy, const Tickets &from)
      : policy(policy), stream(from), workers(size_t(policy.workers)) {}
  virtual ~Rules() = default;

protected:
  struct Worker {
    enum State { Idle, Computes, Waits } state = Idle;
    int64_t ticket = 0, read = 0;
    double done = 0; // when it is, or was
  };

  int64_t indexOf(const Worker &w) const { return &w - workers.data(); }
  /// A worker has a ticket now.
  virtual void started(Worker &) = 0;

  /// Who does nothing takes a ticket, in order; where all work in step, who is at something drops it.
  void startAll(int64_t version);
  /// Of those who have arrived (and wait), takes what the update takes by now; true: it is complete. Who goes on before
  /// the update is started.
  bool settle(int64_t version, Update &update);
  /// All work in hand is abandoned; its tickets come first from now on, in order.
  void abandonAll();

  const SyncPolicy &policy;
  Tickets stream;
  std::vector<Worker> workers;

private:
  void start(Worker &w, int64_t version);
  void put(Worker &w, Update &update);
  bool isInTime(int64_t version, int64_t taken, const std::vector<Worker *> &leftOut, bool oneMore = false) const;
  std::vector<Worker *> waiting();
  bool settleInStep(int64_t version, Update &update);
  bool settleWaiting(int64_t version, Update &update);
  bool settleBatch(int64_t version, Update &update);
};

} // namespace echelon::runtime
