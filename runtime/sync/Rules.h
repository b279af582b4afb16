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

  /// Gives every idle worker the next ticket, in order of workers. Under k_sync and k_batch_sync, whose workers all
  /// start at an update, those that still compute drop their work and start, too.
  void startAll(int64_t version);
  /// Moves gradients that have arrived into `update`; true once it has k. Workers that go on before the update start.
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
