#include "runtime/transport/shared/SharedTransport.h"

#include "runtime/launch/Fail.h"

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstdio>
#include <cstring>
#include <numeric>
#include <thread>
#include <unistd.h>

namespace echelon::runtime {

// Requests of the two kinds share one number space: odd is a message, even a collective.
static Request requestOfMessage(int index) { return 2 * Request(index) + 1; }
static Request requestOfCollective(int index) { return 2 * Request(index) + 2; }
static bool isMessage(Request request) { return request & 1; }
static int indexOf(Request request) { return static_cast<int>((request - 1) / 2); }

SharedTransport::SharedTransport(Segment &segment, int rank, Kind kind, double deadlineSeconds)
    : segment(segment), kind(kind), messages(segment, rank, kind == Kind::Threads),
      direct(segment, rank, kind == Kind::Threads, deadlineSeconds, [this] { pump(); }) {
  ownRank = rank;
  worldSize = segment.ranks();
  this->deadlineSeconds = deadlineSeconds;
  segment.status(rank).useClockOf(kind == Kind::Threads);
  std::vector<int> all(worldSize);
  std::iota(all.begin(), all.end(), 0);
  worldGroup = makeGroup(all);
}

void *SharedTransport::allocateBefore(size_t bytes, size_t tail) {
  bytes = std::max<size_t>(64, (bytes + 63) / 64 * 64);
  if (arenaUsed + bytes <= segment.arenaBytes()) {
    void *block = segment.arena(ownRank) + arenaUsed;
    arenaUsed += bytes;
    if (tail && kind == Kind::Processes)
      segment.exclude(static_cast<char *>(block) + bytes - tail, tail);
    return block;
  }
  void *block = ownMemory.allocate(bytes, tail);
  if (!block)
    fail("cannot allocate " + std::to_string(bytes) + " bytes: " + std::strerror(errno));
  return block;
}

Group SharedTransport::makeGroup(std::vector<int> ranks) {
  Group group;
  group.ranks = std::move(ranks);
  group.id = groupCount++;
  auto own = std::find(group.ranks.begin(), group.ranks.end(), ownRank);
  if (own == group.ranks.end())
    fail("rank " + std::to_string(ownRank) + " is not in the group that it makes");
  group.index = static_cast<int>(own - group.ranks.begin());
  direct.addGroup(group);
  return group;
}

// ---- messages ----

void SharedTransport::checkPeer(int peer, const char *what) const {
  if (peer < 0 || peer >= worldSize)
    fail(std::string(what) + " rank " + std::to_string(peer) + ", which is not one of " + std::to_string(worldSize));
}

Request SharedTransport::isend(int to, const void *data, size_t bytes, int tag, const char *label) {
  checkPeer(to, "a message to");
  return requestOfMessage(messages.isend(to, data, bytes, tag, label));
}

Request SharedTransport::ireceive(int from, void *data, size_t bytes, int tag, const char *label) {
  checkPeer(from, "a message from");
  return requestOfMessage(messages.ireceive(from, data, bytes, tag, label));
}

// ---- collectives ----

// A group of one has its result in its own input.
static void copyOwn(const CollectiveCall &call) {
  if (call.out && call.in && call.out != call.in && call.count)
    std::memcpy(call.out, call.in, call.count * bytesOf(call.type));
}

Request SharedTransport::startCollective(const Group &group, const CollectiveCall &call) {
  if (group.size() == 1) {
    copyOwn(call);
    return 0;
  }
  return requestOfCollective(direct.start(group, call));
}

void SharedTransport::runCollective(const Group &group, const CollectiveCall &call) {
  if (group.size() == 1)
    return copyOwn(call);
  direct.run(group, call);
}

bool SharedTransport::test(Request request) {
  if (!request)
    return true;
  return isMessage(request) ? messages.test(indexOf(request)) : direct.test(indexOf(request));
}

void SharedTransport::wait(Request request) {
  if (!request)
    return;
  if (!isMessage(request))
    return direct.wait(indexOf(request));
  const int index = indexOf(request);
  if (messages.test(index))
    return;
  if (*messages.labelOf(index))
    setPlace(messages.doingOf(index), messages.labelOf(index));
  WaitPolicy patience(segment, ownRank, deadlineSeconds);
  const int peer = messages.peerOf(index);
  while (!messages.test(index)) {
    direct.progress();
    advanceBackground();
    patience.pause(peer);
  }
}

void SharedTransport::pump() {
  messages.pump();
  advanceBackground();
}

void SharedTransport::progress() {
  pump();
  direct.progress();
}

// ---- what others are told ----

void SharedTransport::setStep(int64_t step) { segment.status(ownRank).setStep(step); }

void SharedTransport::setComputes(bool computes) { segment.status(ownRank).setComputes(computes); }

// A thread's clock leaves other threads out anyway.
void SharedTransport::setAside(double processorSeconds) {
  if (kind == Kind::Processes)
    segment.status(ownRank).aside.store(processorSeconds, std::memory_order_relaxed);
}

void SharedTransport::setSnapshotPhase(SnapshotPhase saving) { segment.header().saving.store(saving); }

void SharedTransport::setPlace(Activity what, const char *label) { segment.status(ownRank).setPlace(what, label); }

const uint64_t &SharedTransport::waitedTicks() const { return segment.status(ownRank).waitedTicks; }

bool SharedTransport::stopRequested() const {
  return segment.header().stopRequested.load(std::memory_order_relaxed) != 0;
}

void SharedTransport::stop(const char *message) {
  int nobody = -1;
  if (segment.header().failedRank.compare_exchange_strong(nobody, ownRank)) {
    std::fflush(stdout);
    complain("rank " + std::to_string(ownRank) + ": " + message);
    segment.header().hasTold.store(true);
  }
  if (kind == Kind::Threads || worldSize == 1) // the process lives on: launch() returns
    throw RankStopped();
  while (ownRank == 0 && segment.header().saving.load() == SnapshotPhase::Writes && segment.header().endsAfterSave())
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  std::fflush(nullptr);
  _exit(4);
}

} // namespace echelon::runtime
