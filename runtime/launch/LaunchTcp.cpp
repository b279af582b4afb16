// A rank that torchrun, srun or mpirun has started: this process is it. Where none has, this process starts all ranks
// on this machine, and they meet at a port of its loopback.

#include "runtime/launch/Launchers.h"

#include "runtime/launch/Fail.h"
#include "runtime/launch/LaunchedAs.h"
#include "runtime/transport/tcp/TcpTransport.h"

#include <cerrno>
#include <chrono>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <thread>
#include <unistd.h>

namespace echelon::runtime {

namespace {

using Clock = std::chrono::steady_clock;
constexpr int kBringUpDeadlines = 6; // as over mpi

int runAs(const tcp::Member &member, const LaunchOptions &options, const RankMain &rankMain,
          const std::atomic<int> &stopFlag) {
  tcp::Met met = tcp::meet(member, options.identity, kBringUpDeadlines * options.deadlineSeconds, stopFlag);
  auto *transport = new TcpTransport(member, std::move(met), options.deadlineSeconds, stopFlag);
  setRankOfProcess(transport);
  if (member.rank == 0)
    StopSignals::say(options.lastWords);
  const int code = runRank(*transport, rankMain);
  std::fflush(nullptr);
  setRankOfProcess(nullptr);
  if (!transport->leave(code)) {
    std::fprintf(stderr, "echelon: rank %d ended, and others did not within %g s\n", member.rank,
                 options.deadlineSeconds);
    std::_Exit(4);
  }
  delete transport;
  return code;
}

/// Starts the ranks, and outlives them all.
class LocalRanks {
public:
  LocalRanks(const LaunchOptions &options, const RankMain &rankMain)
      : options(options), rankMain(rankMain), segment(1, 0), signals(segment.header(), false) {}

  int run() {
    std::string error;
    bool isTaken = false;
    tcp::Socket listener = tcp::listenFor("127.0.0.1", 0, error, isTaken);
    if (!listener.isOpen())
      fail("cannot listen for the ranks: " + error);
    std::fflush(nullptr); // or every rank would print it again
    for (int rank = 0; rank < options.ranks; ++rank)
      start(rank, listener);
    listener.close();
    return awaitAll();
  }

private:
  void start(int rank, tcp::Socket &listener) {
    const pid_t parent = getpid(), pid = fork();
    if (pid < 0) {
      complain("cannot start rank " + std::to_string(rank) + ": " + std::strerror(errno));
      endAll();
      std::_Exit(4);
    }
    children.push_back(pid);
    if (pid > 0)
      return;
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (getppid() != parent) // it died before the line above
      _exit(4);
    tcp::Member member;
    member.rank = member.localRank = rank;
    member.size = options.ranks;
    member.host = "127.0.0.1";
    member.port = listener.own().port;
    member.atFault = "--store HOST:PORT";
    if (rank == 0)
      member.listener = dup(listener.descriptor());
    listener.close();
    const int code = runAs(member, options, rankMain, segment.header().stopRequested);
    std::fflush(nullptr);
    _exit(code);
  }

  /// Ranks end each other; those that outlive one that failed for long are ended here.
  int awaitAll() {
    std::vector<int> codes(children.size(), -1);
    size_t running = children.size();
    Clock::time_point firstFailure = Clock::time_point::max();
    const auto patience = std::chrono::duration<double>(options.deadlineSeconds + 10);
    while (running > 0) {
      for (size_t rank = 0; rank < children.size(); ++rank) {
        int status = 0;
        if (codes[rank] >= 0 || waitpid(children[rank], &status, WNOHANG) != children[rank])
          continue;
        --running;
        codes[rank] = WIFEXITED(status) ? WEXITSTATUS(status) : 4;
        if (codes[rank] != 0)
          firstFailure = std::min(firstFailure, Clock::now());
      }
      if (StopSignals::signals() > 1) {
        std::fputs(asLine(options.lastWords).c_str(), stderr);
        return endAll();
      }
      if (firstFailure < Clock::now() && Clock::now() - firstFailure > patience)
        return endAll();
      if (running > 0)
        std::this_thread::sleep_for(std::chrono::milliseconds(5));
    }
    for (size_t rank = 1; rank < codes.size(); ++rank)
      if (codes[rank] != codes[0]) {
        if (codes[0] != 4 && codes[rank] != 4)
          complain("ranks ended with different codes: rank 0 with " + std::to_string(codes[0]) + ", rank " +
                   std::to_string(rank) + " with " + std::to_string(codes[rank]));
        return 4;
      }
    return codes[0];
  }

  int endAll() {
    for (const pid_t child : children)
      if (waitpid(child, nullptr, WNOHANG) == 0) {
        kill(child, SIGKILL);
        waitpid(child, nullptr, 0);
      }
    return 4;
  }

  const LaunchOptions &options;
  const RankMain &rankMain;
  Segment segment; // for the flag that signals set, which all ranks see
  StopSignals signals;
  std::vector<pid_t> children;
};

} // namespace

int launchTcp(const LaunchOptions &options, const RankMain &rankMain) {
  LaunchedAs launched;
  const std::string wrong =
      readLaunchedAs([](const char *name) { return std::getenv(name); }, options.store, options.ranks, launched);
  if (!wrong.empty())
    fail("--transport tcp: " + wrong);
  if (launched.launcher.empty() && !options.store.empty())
    fail("--store is where the ranks meet that torchrun, srun or mpirun starts, and none of them has started this "
         "program; leave it out, and all ranks are started here");
  if (launched.launcher.empty())
    return LocalRanks(options, rankMain).run();
  std::signal(SIGUSR1, SIG_IGN); // reminders come before the handlers below are there, and after
  SegmentHeader header;          // of this process alone: what the signal handlers write to
  StopSignals signals(header, true);
  return runAs(launched.member, options, rankMain, header.stopRequested);
}

} // namespace echelon::runtime
