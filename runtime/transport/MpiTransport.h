// The transport of ranks on several machines, over MPI: built into the plugin libechelon_mpi.so.
//
// Every wait tests and gives the core away, so that it can end at the deadline; the ranks that wait then ask all others
// where they are, and those that do not answer are named. MPI is called from one thread (MPI_THREAD_FUNNELED).
#pragma once

#include "runtime/transport/MpiPlugin.h"
#include "runtime/transport/OwnMemory.h"

#define OMPI_SKIP_MPICXX 1
#define MPICH_SKIP_MPICXX 1
#include <atomic>
#include <mpi.h>
#include <thread>

#include <deque>
#include <memory>
#include <string>

namespace echelon::runtime {

class MpiTransport final : public Transport {
public:
  explicit MpiTransport(const MpiJoin &join);
  ~MpiTransport() override;

  const char *name() const override { return "mpi"; }
  bool isDirect() const override { return false; }
  void *allocate(size_t bytes) override;
  Group makeGroup(std::vector<int> ranks) override;
  using Transport::makeGroup;

  Request isend(int to, const void *data, size_t bytes, int tag, const char *label) override;
  Request ireceive(int from, void *data, size_t bytes, int tag, const char *label) override;
  Request startCollective(const Group &group, const CollectiveCall &call) override;
  /// Reductions wait to the deadline until all ranks have come, then use MPI's blocking call, which takes half the
  /// time.
  void runCollective(const Group &group, const CollectiveCall &call) override;
  bool test(Request request) override;
  void wait(Request request) override;
  void progress() override;

  void setStep(int64_t newStep) override { place.step = newStep; }
  void setPlace(const char *what, const char *label) override;
  bool stopRequested() const override { return join.stopRequested->load() != 0; }
  [[noreturn]] void stop(const char *message) override;

  /// Whether all ranks have come to the end within the deadline.
  bool leave();

private:
  /// Where a rank is, as it is sent to those that ask.
  struct Place {
    int64_t step = -1;
    char what[32] = {};
    char label[64] = {};
    std::string describe() const;
    std::string name() const;
  };
  struct Operation {
    std::vector<MPI_Request> parts;
    Place place;
    bool isPlaced = false;                // the wait shows as `place`
    std::vector<char> copy;               // of an input that MPI reads
    MPI_Datatype row = MPI_DATATYPE_NULL; // of an output in runs
  };

  MPI_Op opOf(const CollectiveCall &call) const;
  Operation &take(Request &request);
  void checkCount(const Group &group, const CollectiveCall &call) const;
  Request transfer(bool isSend, int peer, char *data, size_t bytes, int tag, const char *label);
  bool isComplete(Operation &operation);
  /// The request is spent: what its operation needed goes.
  void giveBack(Request request);
  void waitFor(Operation &operation);
  bool comesTogether(MPI_Comm communicator);
  void meetMachine();
  void watch();
  std::string whoIsGone() const;
  void answerQuestions();
  [[noreturn]] void timeOut();
  [[noreturn]] void die(const std::string &message) const;

  MpiJoin join;
  Place place;
  MPI_Comm messages = MPI_COMM_NULL;  // send and receive
  MPI_Comm questions = MPI_COMM_NULL; // where are you?
  std::vector<MPI_Comm> groups;       // by id
  MPI_Op realOps[2][2];               // of float and double: maximum and minimum
  std::deque<Operation> operations;   // request - 1
  std::vector<Request> freeRequests;
  OwnMemory ownMemory;

  // MPI's blocking calls look at no deadline: a thread does, while this rank is in one.
  std::vector<int> processes; // of the ranks of this machine, by rank; 0: on another one
  std::atomic<int64_t> blockedSince{0};
  std::atomic<bool> isLeaving{false};
  std::thread watcher;
};

} // namespace echelon::runtime
