// The order in which workers finish: drawn on a clock that nobody waits for, or read from the log of a run.
#pragma once

#include "runtime/sync/SyncPolicy.h"

#include <memory>
#include <string>
#include <vector>

namespace echelon::runtime {

/// Where a run stands in its stream of mini-batches: ticket t is samples t m to (t + 1) m - 1.
struct Tickets {
  int64_t next = 0;           // never taken so far
  std::vector<int64_t> again; // abandoned at a meeting, in order: taken before `next`
  double time = 0;            // on the clock of drawn arrivals
};

/// A gradient of an update.
struct HandedIn {
  int64_t worker, ticket;
  int64_t read; // the updates that had been made in the parameters that it was computed at
};

struct Update {
  std::vector<HandedIn> gradients; // in order of arrival
  double time = 0;                 // when the last one arrived
};

/// Every rank has one, and all say the same.
class Arrivals {
public:
  virtual ~Arrivals() = default;
  /// The gradients of update `version`, which follow those of the call before.
  virtual Update next(int64_t version) = 0;
  /// After the latest update: the version of the parameters at which the worker computes; -1: it has no work.
  virtual int64_t readBy(int64_t worker) const = 0;
  /// After an update: all work in hand is abandoned, and all workers go on at `version`.
  virtual void meet(int64_t version) = 0;
  /// After a meeting, where a run goes on from.
  virtual Tickets tickets() const = 0;
};

/// Arrivals of `policy`, whose delays are drawn, from a meeting after `version` updates on.
std::unique_ptr<Arrivals> drawnArrivals(const SyncPolicy &policy, uint64_t seed, int64_t version, const Tickets &from);

/// Those of a run, from the rows of its log behind step `version`. Sets `error`, and returns null, where it cannot be
/// read, is of another policy, or has not so many steps.
std::unique_ptr<Arrivals> replayedArrivals(const SyncPolicy &policy, const std::string &log, int64_t version,
                                           int64_t last, std::string &error);

} // namespace echelon::runtime
