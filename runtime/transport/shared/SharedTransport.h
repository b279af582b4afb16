// The transport of ranks on one machine: processes over one shared segment (shm), or threads of one process (threads).
#pragma once

#include "runtime/transport/OwnMemory.h"
#include "runtime/transport/Transport.h"
#include "runtime/transport/shared/DirectCollectives.h"
#include "runtime/transport/shared/MessageRings.h"

namespace echelon::runtime {

class SharedTransport final : public Transport {
public:
  enum class Kind { Processes, Threads };

  /// Rank `rank` of segment.ranks(). Made by the rank itself, after the fork or on its thread.
  SharedTransport(Segment &segment, int rank, Kind kind, double deadlineSeconds);

  const char *name() const override { return kind == Kind::Processes ? "shm" : "threads"; }
  bool isDirect() const override { return true; }
  void *allocate(size_t bytes) override { return allocateBefore(bytes, 0); }
  void *allocateBefore(size_t bytes, size_t tail) override;
  bool isReached(const void *memory) const override { return kind == Kind::Threads || segment.contains(memory); }
  Group makeGroup(std::vector<int> ranks) override;
  using Transport::makeGroup;

  Request isend(int to, const void *data, size_t bytes, int tag, const char *label) override;
  Request ireceive(int from, void *data, size_t bytes, int tag, const char *label) override;
  Request startCollective(const Group &group, const CollectiveCall &call) override;
  void runCollective(const Group &group, const CollectiveCall &call) override;
  bool test(Request request) override;
  void wait(Request request) override;
  void progress() override;

  void setStep(int64_t step) override;
  void setComputes(bool computes) override;
  void setAside(double processorSeconds) override;
  void setSnapshotPhase(SnapshotPhase saving) override;
  void setPlace(Activity what, const char *label) override;
  bool stopRequested() const override;
  const uint64_t &waitedTicks() const override;
  [[noreturn]] void stop(const char *message) override;

private:
  void pump(); // messages, and what is made of them
  void checkPeer(int peer, const char *what) const;

  Segment &segment;
  Kind kind;
  size_t arenaUsed = 0;
  OwnMemory ownMemory; // what does not fit into the arena
  int groupCount = 0;
  Messages messages;
  DirectCollectives direct;
};

} // namespace echelon::runtime
