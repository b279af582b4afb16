// The ranks of this machine among those that MPI has started: where each is, for those that wait for it. MPI itself
// tells nobody that a rank is gone or stands still; mpirun does, without saying where.
#pragma once

#include "runtime/transport/RankStatus.h"
#include "runtime/transport/WaitClock.h"

#define OMPI_SKIP_MPICXX 1
#define MPICH_SKIP_MPICXX 1
#include <atomic>
#include <mpi.h>
#include <set>
#include <string>
#include <thread>
#include <vector>

namespace echelon::runtime {

/// A thread of its own looks at the other ranks: one that is gone is named at once, one that stands still when this
/// rank has waited long enough (Suspicion). Where the ranks cannot map a page together, only at the deadline.
class MpiMachine {
public:
  /// Collective over MPI's world.
  MpiMachine(int ownRank, int worldSize, double deadlineSeconds);
  ~MpiMachine();
  MpiMachine(const MpiMachine &) = delete;

  RankStatus &own() { return statusOf(ownRank); }
  void setStep(int64_t step) {
    own().setStep(step);
    stepSeconds.store(own().steps.median(), std::memory_order_relaxed);
  }

  /// While one of these lives, this rank waits; `blocked`: in a call of MPI that looks at no deadline.
  class Waiting {
  public:
    Waiting(MpiMachine &machine, bool blocked);
    ~Waiting();

  private:
    MpiMachine &machine;
  };

  /// How many ranks of the machine there are, this one among them.
  int ranks() const { return static_cast<int>(peers.size()) + 1; }
  /// From now on this rank may be gone, and it looks at no others.
  void leave();
  /// Says why the run ends, where no other rank of the machine does; else returns when that one has.
  void tell(const std::string &message);
  /// "rank 1 is stopped (by SIGSTOP or a debugger)": those that cannot come; empty where there are none.
  std::string whoIsGone() const;

private:
  struct Shared;
  struct Peer {
    int rank;
    int descriptor; // of its process, readable when that has ended; -1: there is none
  };

  Shared *mapTogether(MPI_Comm machine) const;
  void meet(MPI_Comm machine);
  RankStatus &statusOf(int rank) const;
  std::string whereOthersAre(int gone) const;
  bool isFirstToFail();
  void say(const std::string &message);
  void awaitTold() const;
  void watch();
  void endWatch();
  bool hasEnded(const Peer &peer) const;
  void lookForGone();
  void lookForLate();
  void end(const std::string &message);

  int ownRank, worldSize;
  double deadlineSeconds;
  Shared *shared; // mapped, the statuses after it
  size_t sharedBytes;
  std::vector<Peer> peers;
  std::set<std::string> ownSegments; // files of MPI that it made, and whose names are gone
  std::vector<Suspicion> suspicions; // a peer each
  int64_t suspectedSince = 0;        // which wait they are of
  WaitClock clock;                   // of that wait

  std::atomic<int64_t> waitsSince{0}; // ns; 0: it does not wait
  std::atomic<bool> isBlocked{false};
  std::atomic<double> stepSeconds{0};
  int leaving; // a descriptor that ends the thread
  std::thread watcher;
};

} // namespace echelon::runtime
