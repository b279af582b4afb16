#include "runtime/transport/mpi/MpiMachine.h"
#include "runtime/launch/Printable.h"

#include <array>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fcntl.h>
#include <fstream>
#include <new>
#include <poll.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

namespace echelon::runtime {

using Clock = std::chrono::steady_clock;
static int64_t now() { return std::chrono::nanoseconds(Clock::now().time_since_epoch()).count(); }

struct alignas(2 * kCacheLine) MpiMachine::Shared {
  std::atomic<int> failedRank{-1};  // the first one that says why the run ends
  std::atomic<bool> hasTold{false}; // and has said it
};

MpiMachine::MpiMachine(int ownRank, int worldSize, double deadlineSeconds)
    : ownRank(ownRank), worldSize(worldSize), deadlineSeconds(deadlineSeconds),
      sharedBytes(sizeof(Shared) + worldSize * sizeof(RankStatus)), leaving(eventfd(0, EFD_CLOEXEC)) {
  MPI_Comm machine;
  MPI_Comm_split_type(MPI_COMM_WORLD, MPI_COMM_TYPE_SHARED, 0, MPI_INFO_NULL, &machine);
  shared = mapTogether(machine);
  own().process.store(getpid());
  own().useClockOf(false);
  meet(machine);
  MPI_Comm_free(&machine);
  suspicions.resize(peers.size());
  if (leaving < 0) {
    tell("cannot make the descriptor that ends the watch over other ranks; raise the limit of open files (ulimit -n)");
    MPI_Abort(MPI_COMM_WORLD, 4);
  }
  watcher = std::thread([this] { watch(); });
}

void MpiMachine::endWatch() {
  const uint64_t one = 1;
  while (watcher.joinable())
    if (write(leaving, &one, sizeof one) == sizeof one)
      watcher.join();
}

MpiMachine::~MpiMachine() {
  endWatch();
  for (const Peer &peer : peers)
    if (peer.descriptor >= 0)
      close(peer.descriptor);
  close(leaving);
  munmap(shared, sharedBytes);
}

RankStatus &MpiMachine::statusOf(int rank) const { return reinterpret_cast<RankStatus *>(shared + 1)[rank]; }

/// Memory of all ranks of the machine, made by the first of them and without a name that could stay behind; where one
/// of them cannot map it, of each its own.
MpiMachine::Shared *MpiMachine::mapTogether(MPI_Comm machine) const {
  auto construct = [&](void *memory) {
    Shared *made = new (memory) Shared();
    for (int rank = 0; rank < worldSize; ++rank)
      new (reinterpret_cast<RankStatus *>(made + 1) + rank) RankStatus();
    return made;
  };
  int place;
  MPI_Comm_rank(machine, &place);
  int descriptor = -1;
  void *memory = MAP_FAILED;
  int maker[2] = {static_cast<int>(getpid()), -1};
  if (place == 0) {
    descriptor = memfd_create("echelon-ranks", MFD_CLOEXEC);
    if (descriptor >= 0 && ftruncate(descriptor, static_cast<off_t>(sharedBytes)) == 0)
      memory = mmap(nullptr, sharedBytes, PROT_READ | PROT_WRITE, MAP_SHARED, descriptor, 0);
    if (memory != MAP_FAILED)
      construct(memory);
    maker[1] = descriptor;
  }
  MPI_Bcast(maker, 2, MPI_INT, 0, machine);
  if (place != 0 && maker[1] >= 0) {
    const std::string path = "/proc/" + std::to_string(maker[0]) + "/fd/" + std::to_string(maker[1]);
    descriptor = open(path.c_str(), O_RDWR | O_CLOEXEC);
    if (descriptor >= 0)
      memory = mmap(nullptr, sharedBytes, PROT_READ | PROT_WRITE, MAP_SHARED, descriptor, 0);
  }
  int mapped = memory != MAP_FAILED, allMapped = 0;
  MPI_Allreduce(&mapped, &allMapped, 1, MPI_INT, MPI_MIN, machine);
  if (descriptor >= 0)
    close(descriptor);
  if (allMapped)
    return static_cast<Shared *>(memory);
  if (mapped)
    munmap(memory, sharedBytes);
  memory = mmap(nullptr, sharedBytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (memory == MAP_FAILED)
    MPI_Abort(MPI_COMM_WORLD, 4);
  return construct(memory);
}

/// Tells the ranks of this machine apart, and lets go of the names of what they share: Open MPI's ranks talk through
/// files in /dev/shm, which stay behind when a rank is killed. Once all have mapped those of all, the names are not
/// needed.
void MpiMachine::meet(MPI_Comm machine) {
  int place, size;
  MPI_Comm_rank(machine, &place);
  MPI_Comm_size(machine, &size);
  const int self[2] = {ownRank, static_cast<int>(getpid())};
  std::vector<std::array<int, 2>> others(static_cast<size_t>(size));
  std::vector<MPI_Request> requests;
  for (int peer = 0; peer < size; ++peer)
    if (peer != place) {
      MPI_Irecv(others[static_cast<size_t>(peer)].data(), 2, MPI_INT, peer, 0, machine, &requests.emplace_back());
      MPI_Isend(self, 2, MPI_INT, peer, 0, machine, &requests.emplace_back());
    }
  MPI_Waitall(static_cast<int>(requests.size()), requests.data(), MPI_STATUSES_IGNORE);
  for (int peer = 0; peer < size; ++peer)
    if (peer != place) {
      const auto [rank, process] = others[static_cast<size_t>(peer)];
      statusOf(rank).process.store(process);
#ifdef SYS_pidfd_open
      peers.push_back({rank, static_cast<int>(syscall(SYS_pidfd_open, process, 0))});
#else
      peers.push_back({rank, -1});
#endif
    }
  MPI_Barrier(machine);
  std::ifstream maps("/proc/self/maps");
  for (std::string line; std::getline(maps, line);) {
    const size_t at = line.find("/dev/shm/");
    if (at == std::string::npos || line.find("_segment", at) == std::string::npos)
      continue;
    const std::string name = line.substr(at, line.find(" (deleted)", at) - at), // by another rank
        suffix = "." + std::to_string(ownRank);
    unlink(name.c_str());
    if (name.size() > suffix.size() && name.compare(name.size() - suffix.size(), suffix.size(), suffix) == 0)
      ownSegments.insert(name);
  }
}

void MpiMachine::leave() {
  own().exitCode.store(0);
  endWatch(); // where memory is not shared, others that have left would be taken for gone
  // MPI unlinks its own segments when it ends, and complains where there are none; its way of saying so has faults.
  for (const std::string &name : ownSegments)
    if (const int file = open(name.c_str(), O_CREAT | O_WRONLY | O_CLOEXEC, 0600); file >= 0)
      close(file);
}

// ---- waiting ----

MpiMachine::Waiting::Waiting(MpiMachine &machine, bool blocked) : machine(machine) {
  machine.own().waitsFor.store(RankStatus::kSomebody, std::memory_order_relaxed);
  machine.isBlocked.store(blocked, std::memory_order_relaxed);
  machine.waitsSince.store(now(), std::memory_order_release);
}

MpiMachine::Waiting::~Waiting() {
  machine.waitsSince.store(0, std::memory_order_relaxed);
  machine.own().waitsFor.store(-1, std::memory_order_relaxed);
}

// ---- what the thread does ----

void MpiMachine::watch() {
  std::vector<pollfd> descriptors = {{leaving, POLLIN, 0}};
  for (const Peer &peer : peers)
    descriptors.push_back({peer.descriptor, POLLIN, 0});
  for (;;) {
    constexpr int kMilliseconds = 50;
    if (poll(descriptors.data(), descriptors.size(), kMilliseconds) > 0) {
      if (descriptors[0].revents)
        return;
      for (size_t i = 1; i < descriptors.size(); ++i)
        if (descriptors[i].revents)
          descriptors[i].fd = -1; // it is seen below, and again only where it was not the end of the run
      lookForGone();
    }
    lookForLate();
    const int failed = shared->failedRank.load();
    if (failed >= 0 && failed != ownRank) {
      awaitTold();
      std::_Exit(4);
    }
  }
}

bool MpiMachine::hasEnded(const Peer &peer) const {
  if (peer.descriptor < 0)
    return false;
  pollfd one = {peer.descriptor, POLLIN, 0};
  return poll(&one, 1, 0) > 0;
}

void MpiMachine::lookForGone() {
  for (const Peer &peer : peers) {
    const RankStatus &status = statusOf(peer.rank);
    if (hasEnded(peer) && status.exitCode.load() < 0)
      return end("rank " + std::to_string(peer.rank) + " is gone, " + status.describe() + whereOthersAre(peer.rank));
  }
}

// Gives the others a moment to come to where they wait: on a busy machine half of the second that mpirun leaves a rank
// between SIGTERM and SIGKILL.
std::string MpiMachine::whereOthersAre(int gone) const {
  for (int tries = 0; tries < 100; ++tries) {
    for (const Peer &peer : peers)
      if (peer.rank != gone && !hasEnded(peer) && statusOf(peer.rank).waitsFor.load() >= 0)
        return "; the others wait in " + statusOf(peer.rank).place();
    if (statusOf(ownRank).waitsFor.load() >= 0)
      return "; the others wait in " + statusOf(ownRank).place();
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
  }
  return "";
}

void MpiMachine::lookForLate() {
  const int64_t since = waitsSince.load(std::memory_order_acquire);
  if (since == 0)
    return;
  if (since != suspectedSince) {
    suspectedSince = since;
    suspicions.assign(peers.size(), Suspicion());
    clock = WaitClock(Clock::time_point(std::chrono::nanoseconds(since)));
  }
  const double seconds = clock.seconds();
  if (seconds < clock.trustsUntil())
    return;
  for (size_t i = 0; i < peers.size(); ++i) {
    const RankStatus &status = statusOf(peers[i].rank);
    if (suspicions[i].isHopeless(own(), stepSeconds.load(std::memory_order_relaxed), status, seconds) &&
        waitsSince.load() == since)
      return end(lateMessage(own(), peers[i].rank, status, seconds, deadlineSeconds));
  }
  if (seconds <= deadlineSeconds || !isBlocked.load(std::memory_order_relaxed))
    return; // the other thread looks at the deadline
  char limit[32];
  std::snprintf(limit, sizeof limit, "%g", deadlineSeconds);
  const std::string gone = whoIsGone();
  if (waitsSince.load() != since)
    return; // it has come while this thread looked
  end((gone.empty() ? "" : gone + ": ") + own().placeAndStep() + " was not through within " + limit + " s");
}

/// The other thread may be in MPI, so this one must not be; mpirun and srun end the others.
void MpiMachine::end(const std::string &message) {
  if (!isFirstToFail())
    return;
  say(message);
  std::_Exit(4);
}

void MpiMachine::tell(const std::string &message) {
  if (isFirstToFail())
    say(message);
  else
    awaitTold();
}

bool MpiMachine::isFirstToFail() {
  int nobody = -1;
  return shared->failedRank.compare_exchange_strong(nobody, ownRank) || nobody == ownRank;
}

void MpiMachine::say(const std::string &message) {
  std::fflush(stdout);
  std::fprintf(stderr, "echelon: rank %d: %s\n", ownRank, printable(message, Lines::Indented).c_str());
  std::fflush(stderr);
  shared->hasTold.store(true);
}

/// When one rank ends mpirun ends them all: not before the first has said why, unless it is gone itself.
void MpiMachine::awaitTold() const {
  for (const auto begin = Clock::now(); !shared->hasTold.load() && Clock::now() - begin < std::chrono::seconds(1);)
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  std::this_thread::sleep_for(std::chrono::milliseconds(200)); // for it to come through
}

std::string MpiMachine::whoIsGone() const {
  std::string text;
  for (const Peer &peer : peers) {
    const bool ended = hasEnded(peer);
    if (ended || statusOf(peer.rank).isStopped())
      text += (text.empty() ? "rank " : " and rank ") + std::to_string(peer.rank) +
              (ended ? " has ended" : " is stopped (by SIGSTOP or a debugger)");
  }
  return text;
}

} // namespace echelon::runtime
