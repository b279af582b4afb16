// The transport of ranks on several machines, over TCP: for what torchrun, srun or mpirun has started without MPI.
//
// Collectives are the schedules of runtime/collectives, over messages. They move on in the rank's thread, inside of its
// calls; what ends a wait that lasts too long is in Watch.h.
#pragma once

#include "runtime/collectives/Schedule.h"
#include "runtime/transport/OwnMemory.h"
#include "runtime/transport/tcp/Meeting.h"
#include "runtime/transport/tcp/PeerMessages.h"
#include "runtime/transport/tcp/Watch.h"

#include <memory>

namespace echelon::runtime {

class TcpTransport final : public Transport {
public:
  TcpTransport(const tcp::Member &member, tcp::Met met, double deadlineSeconds, const std::atomic<int> &stopFlag);

  const char *name() const override { return "tcp"; }
  int ranksHere() const override { return ownRanksHere; }
  int localRank() const override { return ownLocalRank; }
  std::string networkInterface() const override { return ownInterface; }
  bool isDirect() const override { return false; }
  void *allocate(size_t bytes) override { return allocateBefore(bytes, 0); }
  void *allocateBefore(size_t bytes, size_t tail) override;
  Group makeGroup(std::vector<int> ranks) override;
  using Transport::makeGroup;

  Request isend(int to, const void *data, size_t bytes, int tag, const char *label) override;
  Request ireceive(int from, void *data, size_t bytes, int tag, const char *label) override;
  Request startCollective(const Group &group, const CollectiveCall &call) override;
  void runCollective(const Group &group, const CollectiveCall &call) override;
  bool test(Request request) override;
  void wait(Request request) override;
  void progress() override;

  void setStep(int64_t step) override { watch.own().setStep(step); }
  void setPlace(Activity what, const char *label) override { watch.own().setPlace(what, label); }
  void setComputes(bool computes) override { watch.own().setComputes(computes); }
  void setSnapshotPhase(SnapshotPhase phase) override { watch.setSnapshotPhase(phase); }
  bool stopRequested() const override { return stopFlag.load() != 0; }
  [[noreturn]] void stop(const char *message) override { watch.failed(message); }

  /// Whether all ranks have come to the end within the deadline.
  bool leave(int exitCode) { return watch.leave(exitCode); }

private:
  void checkPeer(int peer) const;
  void waitForMessage(int operation);

  int ownRanksHere, ownLocalRank;
  std::string ownInterface;
  const std::atomic<int> &stopFlag;
  OwnMemory ownMemory;
  int groupCount = 0;
  tcp::Watch watch;
  tcp::PeerMessages messages;
  std::vector<std::string> labels; // of messages, by operation
  std::vector<std::unique_ptr<Schedule>> schedules;
};

} // namespace echelon::runtime
