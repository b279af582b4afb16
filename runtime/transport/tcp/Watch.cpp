#include "runtime/transport/tcp/Watch.h"
#include "runtime/launch/Fail.h"

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <poll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

namespace echelon::runtime::tcp {

namespace {

enum Kind : uint32_t { Status, GivesUp, Fails, Leaves, End, AllLeft };

struct Head {
  uint32_t kind, bytes;
};
constexpr size_t kLongest = 8000; // bytes of a message

constexpr std::chrono::milliseconds kPeriod(200);   // between two reports
constexpr std::chrono::milliseconds kJudgment(700); // in which those that live report once more
constexpr std::chrono::seconds kVerdict(4);         // for rank 0 to judge and for its answer to come

std::string inSeconds(double seconds) {
  char text[32];
  std::snprintf(text, sizeof text, "%g", seconds);
  return text;
}

std::string named(int rank) { return "rank " + std::to_string(rank); }

} // namespace

Watch::Watch(int rank, int size, double deadlineSeconds, bool isFirstHere, std::vector<Socket> sockets)
    : ownRank(rank), ownSize(size), deadlineSeconds(deadlineSeconds), isFirstHere(isFirstHere),
      wake(eventfd(0, EFD_CLOEXEC)) {
  for (size_t i = 0; i < sockets.size(); ++i)
    if (sockets[i].isOpen())
      peers.push_back({int(i), std::move(sockets[i]), {}, {}, Clock::now(), false, false});
  status.process.store(getpid());
  status.useClockOf(false);
  if (wake < 0)
    fail("cannot make the descriptor that ends the watch over other ranks; raise the limit of open files (ulimit -n)");
  thread = std::thread([this] { watch(); });
}

Watch::~Watch() {
  const uint64_t one = 1;
  while (thread.joinable())
    if (write(wake, &one, sizeof one) == sizeof one)
      thread.join();
  close(wake);
}

// ---- the rank's side ----

/// Rank 0's thread judges; what comes of it ends this process.
void Watch::giveUp() {
  const Report here = ownReport();
  if (ownRank == 0)
    hasGivenUp.store(true);
  else
    tell(peers[0].socket, GivesUp, &here, sizeof here);
  std::this_thread::sleep_for(kVerdict);
  endAlone("rank 0 does not answer: it is stopped, or its machine is out of reach; this rank waited in " +
           std::string(here.place) + " for " + inSeconds(deadlineSeconds) + " s");
}

void Watch::failed(const std::string &message) {
  const std::string text = message.substr(0, kLongest);
  if (ownRank == 0)
    endAll("rank 0: " + message);
  if (tell(peers[0].socket, Fails, text.data(), text.size()))
    std::this_thread::sleep_for(kVerdict); // rank 0 prints it
  endAlone(message, /*always=*/true);
}

bool Watch::leave(int exitCode) {
  const int32_t code = exitCode;
  status.exitCode.store(exitCode);
  if (ownSize == 1)
    return true;
  if (ownRank != 0)
    tell(peers[0].socket, Leaves, &code, sizeof code);
  std::unique_lock<std::mutex> lock(leaving);
  hasLeft = true;
  return changed.wait_for(lock, std::chrono::duration<double>(deadlineSeconds), [&] { return allHaveLeft; });
}

// ---- messages ----

Watch::Report Watch::ownReport() const {
  Report report;
  report.step = status.step.load(std::memory_order_relaxed);
  report.waits = status.waitsFor.load(std::memory_order_relaxed) >= 0;
  std::snprintf(report.place, sizeof report.place, "%s", status.placeAndStep().c_str());
  std::snprintf(report.whereIs, sizeof report.whereIs, "%s", status.describe().c_str());
  return report;
}

bool Watch::tell(const Socket &socket, uint32_t kind, const void *data, size_t bytes) {
  const Head head = {kind, uint32_t(bytes)};
  std::vector<char> message(sizeof head + bytes);
  std::memcpy(message.data(), &head, sizeof head);
  if (bytes > 0)
    std::memcpy(message.data() + sizeof head, data, bytes);
  const std::lock_guard<std::mutex> lock(sending);
  return sendAll(socket, message.data(), message.size(), Clock::now() + std::chrono::seconds(1));
}

/// Reads what has come, and does what it says.
void Watch::look(Peer &peer) {
  char bytes[4096];
  for (;;) {
    const ssize_t got = recv(peer.socket.descriptor(), bytes, sizeof bytes, MSG_DONTWAIT);
    if (got < 0 && (errno == EAGAIN || errno == EINTR))
      return;
    if (got <= 0)
      return peerIsGone(peer);
    peer.received.insert(peer.received.end(), bytes, bytes + got);
    for (Head head; peer.received.size() >= sizeof head;) {
      std::memcpy(&head, peer.received.data(), sizeof head);
      if (head.bytes > kLongest)
        return peerIsGone(peer); // what it says is no message
      if (peer.received.size() < sizeof head + head.bytes)
        break;
      take(peer, head.kind, peer.received.data() + sizeof head, head.bytes);
      peer.received.erase(peer.received.begin(), peer.received.begin() + ptrdiff_t(sizeof head + head.bytes));
    }
  }
}

void Watch::take(Peer &peer, uint32_t kind, const char *data, size_t bytes) {
  if (ownRank != 0) {
    if (kind == End)
      endQuietly();
    if (kind == AllLeft)
      everyoneLeft();
    return;
  }
  peer.heard = Clock::now();
  if ((kind == Status || kind == GivesUp) && bytes == sizeof(Report)) {
    std::memcpy(static_cast<void *>(&peer.report), data, bytes);
    peer.report.place[sizeof peer.report.place - 1] = peer.report.whereIs[sizeof peer.report.whereIs - 1] = 0;
  }
  if (kind == GivesUp && asker < 0)
    ask(peer.rank, peer.report.place);
  if (kind == Fails)
    endAll(named(peer.rank) + ": " + std::string(data, bytes));
  if (kind == Leaves)
    peer.hasLeft = true;
}

std::string Watch::lastSeen(const Peer &peer) {
  return *peer.report.whereIs ? peer.report.whereIs : "at a place that it had not told yet";
}

void Watch::everyoneLeft() {
  const std::lock_guard<std::mutex> lock(leaving);
  allHaveLeft = true;
  changed.notify_all();
}

// ---- the thread ----

void Watch::watch() {
  Clock::time_point nextReport = Clock::now();
  bool hasEnded = false;
  for (;;) {
    if (ownRank != 0 && Clock::now() >= nextReport && peers[0].socket.isOpen()) {
      const Report here = ownReport();
      tell(peers[0].socket, Status, &here, sizeof here);
      nextReport = Clock::now() + kPeriod;
    }
    std::vector<pollfd> descriptors = {{wake, POLLIN, 0}};
    for (const Peer &peer : peers)
      descriptors.push_back({peer.socket.isOpen() ? peer.socket.descriptor() : -1, POLLIN, 0});
    constexpr int kMilliseconds = 50;
    poll(descriptors.data(), descriptors.size(), kMilliseconds);
    if (descriptors[0].revents)
      return;
    for (size_t i = 0; i < peers.size(); ++i)
      if (descriptors[i + 1].revents)
        look(peers[i]);
    if (ownRank != 0)
      continue;
    if (hasGivenUp.load() && asker < 0)
      ask(0, ownReport().place);
    if (asker >= 0 && Clock::now() - asked > kJudgment)
      judge();
    const bool isThrough = [&] {
      const std::lock_guard<std::mutex> lock(leaving);
      return hasLeft;
    }();
    if (!hasEnded && isThrough && std::all_of(peers.begin(), peers.end(), [](const Peer &p) { return p.hasLeft; })) {
      hasEnded = true;
      for (const Peer &peer : peers)
        tell(peer.socket, AllLeft, nullptr, 0);
      everyoneLeft();
    }
  }
}

void Watch::ask(int rank, const std::string &place) {
  asker = rank;
  askedAt = place;
  asked = Clock::now();
  waitedThen = status.waitsFor.load() >= 0;
  for (Peer &peer : peers)
    peer.waitedThen = peer.report.waits;
}

/// Of rank 0, some time after a rank has waited to its deadline: who waits for nobody is what it waits for.
void Watch::judge() {
  std::string late, where, others;
  int count = 0;
  const auto since = [&](const Peer &peer) { return std::chrono::duration<double>(Clock::now() - peer.heard).count(); };
  const auto add = [&](int rank, const std::string &about) {
    late += (count > 0 ? " and " : "") + named(rank);
    where += "; " + (count++ > 0 ? named(rank) : "it") + " " + about;
  };
  if (status.exitCode.load() >= 0)
    add(0, "has ended");
  else if (asker != 0 && (!waitedThen || status.waitsFor.load() < 0))
    add(0, "is " + status.describe());
  else if (asker != 0)
    others += "; rank 0 is " + status.describe();
  for (const Peer &peer : peers) {
    const std::string whereIs = lastSeen(peer);
    if (peer.rank == asker)
      continue;
    if (peer.hasLeft)
      add(peer.rank, "has ended");
    else if (peer.heard < asked)
      add(peer.rank, "has said nothing for " + inSeconds(std::max(1.0, double(int(since(peer))))) +
                         " s: it is stopped, or its machine is out of reach; it was " + whereIs);
    else if (!peer.report.waits || !peer.waitedThen)
      add(peer.rank, "is " + whereIs);
    else
      others += "; " + named(peer.rank) + " is " + whereIs;
  }
  const std::string who = named(asker) + ": ", seconds = inSeconds(deadlineSeconds);
  if (count == 0)
    endAll(who + "ranks wait for each other: this one in " + askedAt + others + " (waited " + seconds + " s)");
  endAll(who + late + " did not come to " + askedAt + " within " + seconds + " s" + where);
}

void Watch::peerIsGone(Peer &peer) {
  {
    const std::lock_guard<std::mutex> lock(leaving);
    if (peer.hasLeft || allHaveLeft) {
      peer.socket.close();
      return;
    }
  }
  if (ownRank != 0)
    endAlone("rank 0 is gone: its connection closed; this rank is " + std::string(ownReport().whereIs));
  const Report here = ownReport();
  endAll(named(peer.rank) + " is gone: its connection closed; it was " + lastSeen(peer) +
         (here.waits ? "; rank 0 waits in " + std::string(here.place) : ""));
}

// ---- the end ----

/// Of rank 0: says why, once, and ends all.
void Watch::endAll(const std::string &message) {
  ending.lock(); // for good: a second reason is none
  complain(message);
  for (const Peer &peer : peers)
    if (peer.socket.isOpen())
      tell(peer.socket, End, nullptr, 0);
  endQuietly();
}

/// Of another, which rank 0 does not end: one of each machine speaks, or whoever has something of its own to say.
void Watch::endAlone(const std::string &message, bool always) {
  ending.lock();
  if (isFirstHere || always)
    complain(named(ownRank) + ": " + message);
  else
    std::this_thread::sleep_for(std::chrono::milliseconds(500));
  std::fflush(nullptr);
  std::_Exit(4);
}

void Watch::endQuietly() {
  while (ownRank == 0 && saving.load() == SnapshotPhase::Writes)
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  std::fflush(nullptr);
  std::_Exit(4);
}

} // namespace echelon::runtime::tcp
