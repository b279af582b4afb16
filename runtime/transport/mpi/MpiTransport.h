// The transport of ranks on several machines, over MPI: built into the plugin libechelon_mpi.so.
//
// Every wait tests and gives the core away, so that it can end at the deadline; the ranks that wait then ask all others
// where they are, and those that do not answer are named. MPI is called from one thread (MPI_THREAD_FUNNELED).
#pragma once

#include "runtime/transport/OwnMemory.h"
#include "runtime/transport/mpi/MpiMachine.h"
#include "runtime/transport/mpi/MpiPlugin.h"

#include <deque>
#include <memory>
#include <string>

namespace echelon::runtime {

class MpiTransport final : public Transport {
public:
  explicit MpiTransport(const MpiJoin &join);

  const char *name() const override { return "mpi"; }
  int ranksHere() const override { return machine->ranks(); }
  bool isDirect() const override { return false; }
  void *allocate(size_t bytes) override { return allocateBefore(bytes, 0); }
  void *allocateBefore(size_t bytes, size_t tail) override;
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

  void setStep(int64_t step) override { machine->setStep(step); }
  void setPlace(Activity what, const char *label) override { machine->own().setPlace(what, label); }
  void setComputes(bool computes) override { machine->own().setComputes(computes); }
  void setAside(double seconds) override { machine->own().aside.store(seconds, std::memory_order_relaxed); }
  void setSnapshotPhase(SnapshotPhase newSaving) override { saving.store(newSaving); }
  bool stopRequested() const override { return join.stopRequested->load() != 0; }
  [[noreturn]] void stop(const char *message) override;

  /// Whether all ranks have come to the end within the deadline.
  bool leave();

private:
  /// Where a rank is, as it is sent to those that ask.
  struct Answer {
    char place[160] = {};
  };
  struct Operation {
    std::vector<MPI_Request> parts;
    Activity doing;
    std::string label;                    // the wait shows as these, where it is not empty
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
  void answerQuestions();
  [[noreturn]] void timeOut();
  [[noreturn]] void die(const std::string &message) const;

  MpiJoin join;
  MPI_Comm messages = MPI_COMM_NULL;  // send and receive
  MPI_Comm questions = MPI_COMM_NULL; // where are you?
  std::vector<MPI_Comm> groups;       // by id
  MPI_Op realOps[2][2];               // of float and double: maximum and minimum
  std::deque<Operation> operations;   // request - 1
  std::vector<Request> freeRequests;
  OwnMemory ownMemory;
  std::unique_ptr<MpiMachine> machine; // there once MPI is
  std::atomic<SnapshotPhase> saving{SnapshotPhase::No};
};

} // namespace echelon::runtime
