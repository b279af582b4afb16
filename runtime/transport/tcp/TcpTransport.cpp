#include "runtime/transport/tcp/TcpTransport.h"
#include "runtime/launch/Fail.h"
#include "runtime/transport/Ticks.h"
#include "runtime/transport/WaitClock.h"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <numeric>

namespace echelon::runtime {

// Requests of the two kinds share one number space: odd is a message, even a collective.
static Request requestOfMessage(int index) { return 2 * Request(index) + 1; }
static Request requestOfCollective(size_t index) { return 2 * Request(index) + 2; }
static bool isMessage(Request request) { return request & 1; }
static size_t indexOf(Request request) { return size_t((request - 1) / 2); }

/// Of few rounds where messages are small; else between neighbours alone, so that of the ranks of a machine one talks
/// to the next machine.
static Algorithm algorithmOf(const Group &group, const CollectiveCall &call) {
  constexpr size_t kSmall = size_t(16) << 10; // bytes
  switch (call.kind) {
  case Collective::Barrier:
  case Collective::Gather:
  case Collective::Scatter:
  case Collective::Broadcast:
  case Collective::Reduce:
    return Algorithm::tree;
  case Collective::AllToAll:
    return Algorithm::ring;
  default:
    return size_t(call.count) * bytesOf(call.type) * (call.kind == Collective::AllReduce ? 1 : size_t(group.size())) <=
                   kSmall
               ? Algorithm::butterfly
               : Algorithm::ring;
  }
}

static bool isFirstOfMachine(int rank, const std::vector<uint64_t> &machines) {
  return std::find(machines.begin() + 1, machines.end(), machines[size_t(rank)]) == machines.begin() + rank;
}

TcpTransport::TcpTransport(const tcp::Member &member, tcp::Met met, double deadlineSeconds,
                           const std::atomic<int> &stopFlag)
    : ownRanksHere(int(std::count(met.machines.begin(), met.machines.end(), met.machines[size_t(member.rank)]))),
      ownLocalRank(member.localRank), ownInterface(met.interface), stopFlag(stopFlag),
      watch(member.rank, member.size, deadlineSeconds, isFirstOfMachine(member.rank, met.machines),
            std::move(met.watched)),
      messages(member.rank, std::move(met.peers)) {
  ownRank = member.rank;
  worldSize = member.size;
  this->deadlineSeconds = deadlineSeconds;
  std::vector<int> all(size_t(worldSize), 0);
  std::iota(all.begin(), all.end(), 0);
  worldGroup = makeGroup(all);
}

void *TcpTransport::allocateBefore(size_t bytes, size_t tail) {
  void *block = ownMemory.allocate(bytes, tail);
  if (!block)
    fail("cannot allocate " + std::to_string(bytes) + " bytes: " + std::strerror(errno));
  return block;
}

Group TcpTransport::makeGroup(std::vector<int> ranks) {
  Group group;
  group.ranks = std::move(ranks);
  group.id = groupCount++;
  const auto own = std::find(group.ranks.begin(), group.ranks.end(), ownRank);
  if (own == group.ranks.end())
    fail("rank " + std::to_string(ownRank) + " is not in the group that it makes");
  group.index = int(own - group.ranks.begin());
  return group;
}

// ---- messages ----

void TcpTransport::checkPeer(int peer) const {
  if (peer < 0 || peer >= worldSize)
    fail("a message to or from rank " + std::to_string(peer) + ", which is not one of " + std::to_string(worldSize));
}

Request TcpTransport::isend(int to, const void *data, size_t bytes, int tag, const char *label) {
  checkPeer(to);
  const int operation = messages.isend(to, data, bytes, tag);
  labels.resize(std::max(labels.size(), size_t(operation) + 1));
  labels[size_t(operation)] = label;
  return requestOfMessage(operation);
}

Request TcpTransport::ireceive(int from, void *data, size_t bytes, int tag, const char *label) {
  checkPeer(from);
  const int operation = messages.ireceive(from, data, bytes, tag);
  labels.resize(std::max(labels.size(), size_t(operation) + 1));
  labels[size_t(operation)] = label;
  return requestOfMessage(operation);
}

// ---- collectives ----

// A group of one has its result in its own input.
static void copyOwn(const CollectiveCall &call) {
  if (call.out && call.in && call.out != call.in && call.count)
    std::memcpy(call.out, call.in, size_t(call.count) * bytesOf(call.type));
}

Request TcpTransport::startCollective(const Group &group, const CollectiveCall &call) {
  if (group.size() == 1) {
    copyOwn(call);
    return 0;
  }
  setPlace(doing(call.kind), call.label);
  auto rounds = scheduleOf(*this, group, call, algorithmOf(group, call));
  if (rounds->advance())
    return 0;
  rounds->runInBackground();
  const auto free = std::find(schedules.begin(), schedules.end(), nullptr);
  const auto index = size_t(free - schedules.begin());
  if (free == schedules.end())
    schedules.emplace_back();
  schedules[index] = std::move(rounds);
  return requestOfCollective(index);
}

void TcpTransport::runCollective(const Group &group, const CollectiveCall &call) {
  if (group.size() == 1)
    return copyOwn(call);
  scheduleOf(*this, group, call, algorithmOf(group, call))->finish();
}

// ---- waiting ----

bool TcpTransport::test(Request request) {
  if (!request)
    return true;
  const size_t index = indexOf(request);
  if (!isMessage(request)) {
    if (!schedules[index]->advance())
      return false;
    schedules[index].reset();
    return true;
  }
  if (!messages.isComplete(int(index)))
    messages.pump(0);
  if (!messages.isComplete(int(index)))
    return false;
  messages.release(int(index));
  return true;
}

void TcpTransport::wait(Request request) {
  if (!request)
    return;
  const size_t index = indexOf(request);
  if (isMessage(request)) {
    if (!messages.isComplete(int(index)))
      waitForMessage(int(index));
    messages.release(int(index));
  } else {
    std::unique_ptr<Schedule> rounds = std::move(schedules[index]);
    rounds->finish();
  }
}

void TcpTransport::waitForMessage(int operation) {
  if (!labels[size_t(operation)].empty())
    setPlace(messages.isSend(operation) ? Activity::Send : Activity::Receive, labels[size_t(operation)].c_str());
  const int peer = messages.peerOf(operation);
  watch.own().waitsFor.store(peer, std::memory_order_relaxed);
  const uint64_t beginTicks = ticks();
  WaitClock clock; // since a byte has moved
  uint64_t moved = messages.moved(peer);
  constexpr int kMilliseconds = 20;
  constexpr double kVerdict = 2; // seconds in which rank 0 says why a connection has closed
  for (messages.pump(0); !messages.isComplete(operation); messages.pump(kMilliseconds)) {
    advanceBackground();
    if (const uint64_t now = messages.moved(peer); now != moved) {
      moved = now;
      clock = WaitClock();
    }
    const double seconds = clock.seconds();
    if (seconds > deadlineSeconds)
      watch.giveUp();
    if (seconds > kVerdict && !messages.whyClosed(peer).empty())
      fail("rank " + std::to_string(peer) + " cannot be reached any more: " + messages.whyClosed(peer) +
           "; this rank waited for it in " + watch.own().placeAndStep());
  }
  watch.own().waitsFor.store(-1, std::memory_order_relaxed);
  waited += ticks() - beginTicks;
}

void TcpTransport::progress() {
  messages.pump(0);
  advanceBackground();
}

} // namespace echelon::runtime
