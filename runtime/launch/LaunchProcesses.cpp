// Ranks as forked processes over one shared segment. This process starts them, watches them, and outlives them all.

#include "runtime/launch/Launchers.h"

#include "runtime/launch/Fail.h"
#include "runtime/transport/shared/SharedTransport.h"

#include <cerrno>
#include <chrono>
#include <csignal>
#include <cstdio>
#include <cstring>
#include <sched.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <thread>
#include <unistd.h>

namespace echelon::runtime {

namespace {

const char *likelyCause(int signal) {
  rlimit time = {};
  const bool isLimited = getrlimit(RLIMIT_CPU, &time) == 0 && time.rlim_max != RLIM_INFINITY;
  return signal == SIGKILL && isLimited ? "; perhaps out of memory, or of the processor time that ulimit -t allows"
         : signal == SIGKILL            ? "; perhaps out of memory"
         : signal == SIGXCPU            ? "; it took the processor time that ulimit -t allows"
         : signal == SIGPIPE            ? "; nobody reads what it prints any more"
         : signal == SIGBUS             ? "; perhaps a file was cut while it was read, or its disk failed"
                                        : "";
}

using Clock = std::chrono::steady_clock;

// Moves this process to a core of its own, to begin there; the system may move it on. Without it ranks may begin on one
// core and stay there for seconds, since ranks that wait for each other never sleep long: 100 us a collective, not 1.
void beginOnCore(int rank) {
  cpu_set_t all, one;
  if (sched_getaffinity(0, sizeof all, &all) != 0)
    return;
  int turn = rank % CPU_COUNT(&all), core = 0;
  while (!CPU_ISSET(core, &all) || turn-- > 0)
    ++core;
  CPU_ZERO(&one);
  CPU_SET(core, &one);
  if (sched_setaffinity(0, sizeof one, &one) == 0)
    sched_setaffinity(0, sizeof all, &all);
}

class Watch {
public:
  Watch(const LaunchOptions &options, const RankMain &rankMain)
      : options(options), rankMain(rankMain), segment(options.ranks, options.sharedBytesPerRank),
        signals(segment.header(), false) {
    // SIGCHLD is taken from the queue by nextEvent, so that none is lost between a look and a wait.
    sigemptyset(&childSignal);
    sigaddset(&childSignal, SIGCHLD);
    pthread_sigmask(SIG_BLOCK, &childSignal, &maskBefore);
    // Where whoever started this program ignores SIGCHLD, so does this program, and then no child can be waited for.
    struct sigaction action = {};
    action.sa_handler = SIG_DFL;
    sigaction(SIGCHLD, &action, &actionBefore);
  }
  ~Watch() {
    sigaction(SIGCHLD, &actionBefore, nullptr);
    pthread_sigmask(SIG_SETMASK, &maskBefore, nullptr);
  }

  int run() {
    std::fflush(nullptr); // or every rank would print it again
    for (int rank = 0; rank < options.ranks; ++rank)
      if (!start(rank))
        return stopAll();
    while (alive() > 0) {
      nextEvent();
      for (int rank = 0; rank < options.ranks; ++rank)
        if (children[rank].alive && hasEnded(rank) && !endedWell(rank))
          return stopAll();
      if (StopSignals::signals() > 1) {
        std::fputs(asLine(options.lastWords).c_str(), stderr);
        return stopAll();
      }
      if (othersAreMissing())
        return stopAll();
    }
    return agreedCode(segment);
  }
  /// Whether a rank died or was given up, and nobody asked the run to stop.
  bool lostRank() { return segment.header().lost.load() && !segment.header().stopRequested.load(); }

private:
  struct Child {
    pid_t pid = -1;
    bool alive = false;
    int status = 0;
  };

  bool start(int rank) {
    const pid_t parent = getpid();
    children.resize(options.ranks);
    const pid_t pid = fork();
    if (pid < 0) {
      std::fprintf(stderr, "echelon: cannot start rank %d: %s\n", rank, std::strerror(errno));
      return false;
    }
    if (pid > 0) {
      children[rank].pid = pid;
      children[rank].alive = true;
      return true;
    }
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (getppid() != parent) // it died before the line above
      _exit(4);
    prctl(PR_SET_TIMERSLACK, 1000); // ns: short sleeps in waits are short
    pthread_sigmask(SIG_SETMASK, &maskBefore, nullptr);
    beginOnCore(rank);
    SharedTransport transport(segment, rank, SharedTransport::Kind::Processes, options.deadlineSeconds);
    segment.status(rank).process.store(getpid());
    setRankOfProcess(&transport);
    int code;
    try {
      code = runRank(transport, rankMain);
    } catch (const RankStopped &) { // of one rank alone
      std::fflush(nullptr);
      _exit(4);
    }
    segment.status(rank).exitCode.store(code);
    std::fflush(nullptr);
    _exit(code);
  }

  int alive() const {
    int count = 0;
    for (const Child &child : children)
      count += child.alive;
    return count;
  }

  void nextEvent() {
    const timespec atMost = {0, 200'000'000};
    sigtimedwait(&childSignal, nullptr, &atMost);
  }

  bool hasEnded(int rank) {
    Child &child = children[rank];
    if (waitpid(child.pid, &child.status, WNOHANG) != child.pid)
      return false;
    child.alive = false;
    return true;
  }

  // A rank ends well when its main function has returned. Else it is named here, unless it has spoken for itself.
  bool endedWell(int rank) {
    const int status = children[rank].status;
    const int code = segment.status(rank).exitCode.load();
    if (code >= 0 && WIFEXITED(status)) {
      if (code != 0 && firstFailure == Clock::time_point())
        firstFailure = Clock::now();
      return true;
    }
    if (segment.header().failedRank.load() < 0) {
      segment.header().lost.store(!WIFSIGNALED(status) || WTERMSIG(status) != SIGPIPE); // it would come again
      std::string how = WIFSIGNALED(status) ? "died (signal " + std::to_string(WTERMSIG(status)) + ", " +
                                                  strsignal(WTERMSIG(status)) + likelyCause(WTERMSIG(status)) + ")"
                                            : "ended by itself (exit code " + std::to_string(WEXITSTATUS(status)) + ")";
      complain("rank " + std::to_string(rank) + " " + how + " " + segment.status(rank).describe() +
               whereOthersAre(rank));
    }
    return false;
  }

  // Gives the others a moment to come to where they wait: for the one that is gone, or, where a busy machine lets none
  // come so far, for one that would wait for it.
  std::string whereOthersAre(int gone) {
    constexpr int kTries = 40, kForIt = 20;
    for (int tries = 0; tries < kTries; ++tries) {
      auto isWaiting = [&](int other) { return other == gone || (tries >= kForIt && other >= 0); };
      for (int rank = 0; rank < options.ranks; ++rank)
        if (children[rank].alive && isWaiting(segment.status(rank).waitsFor.load()))
          return "; the others wait in " + segment.status(rank).place();
      std::this_thread::sleep_for(std::chrono::milliseconds(5));
    }
    return "";
  }

  // When ranks agree to end with a code that is not 0, all come to it at about the same time.
  bool othersAreMissing() {
    if (firstFailure == Clock::time_point() ||
        Clock::now() - firstFailure < std::chrono::duration<double>(options.deadlineSeconds))
      return false;
    for (int rank = 0; rank < options.ranks; ++rank)
      if (!children[rank].alive && segment.status(rank).exitCode.load() > 0) {
        complain("rank " + std::to_string(rank) + " ended with code " +
                 std::to_string(segment.status(rank).exitCode.load()) + " " + segment.status(rank).describe() +
                 "; others did not");
        break;
      }
    return true;
  }

  // Others that saw it fail may be gone before the first has said why.
  void awaitTold() {
    const int first = segment.header().failedRank.load();
    const auto end = Clock::now() + std::chrono::seconds(2);
    while (first >= 0 && children[first].alive && !segment.header().hasTold.load() && !hasEnded(first) &&
           Clock::now() < end)
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }

  int stopAll() {
    awaitTold();
    while (children[0].alive && !hasEnded(0) && segment.header().failedRank.load() >= 0 &&
           segment.header().endsAfterSave() && StopSignals::signals() < 2)
      nextEvent();
    for (Child &child : children)
      if (child.alive)
        kill(child.pid, SIGKILL);
    for (Child &child : children)
      if (child.alive) {
        waitpid(child.pid, &child.status, 0);
        child.alive = false;
      }
    return 4;
  }

  const LaunchOptions &options;
  const RankMain &rankMain;
  Segment segment;
  StopSignals signals;
  std::vector<Child> children;
  sigset_t childSignal, maskBefore;
  struct sigaction actionBefore;
  Clock::time_point firstFailure;
};

} // namespace

int launchProcesses(const LaunchOptions &options, const RankMain &rankMain) {
  for (int restart = 1;; ++restart) {
    {
      Watch watch(options, rankMain);
      const int code = watch.run();
      if (!watch.lostRank() || restart > options.restarts)
        return code;
    }
    const std::string wrong = options.beforeRestart ? options.beforeRestart() : "";
    if (!wrong.empty()) {
      complain("no restart: " + wrong);
      return 4;
    }
    std::fprintf(stderr, "echelon: restart %d of %d\n", restart, options.restarts);
  }
}

} // namespace echelon::runtime
