// mpirun ends its ranks within seconds when it gets SIGINT or SIGTERM, and returns 1 whatever they return. SIGUSR1 it
// hands on to them: they take it as a request to stop, however often it comes.
#include "tools/driver/start/Mpirun.h"

#include "tools/driver/ExitCode.h"
#include "tools/driver/build/TemporaryFolder.h"
#include "tools/driver/start/MpirunGuard.h"
#include "tools/driver/start/MpirunRemains.h"
#include "tools/driver/start/ProcessTree.h"

#include "llvm/ADT/STLExtras.h"

#include <array>
#include <cerrno>
#include <chrono>
#include <csignal>
#include <cstdlib>
#include <cstring>
#include <fcntl.h>
#include <iostream>
#include <sys/prctl.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <unistd.h>

namespace echelon {

static volatile sig_atomic_t child = 0, asked = 0, lastAsked = 0, hasTicked = 0;
/// How often it is asked to finish its step before it is ended.
static int requests = 1;

static void handOn(int signal) {
  if (signal == SIGUSR1 && asked) // a reminder
    return;
  asked = asked + 1;
  lastAsked = signal;
  const int reason = errno;
  if (child > 0)
    kill(child, asked <= requests ? SIGUSR1 : SIGTERM);
  errno = reason;
}

/// Ctrl-Z: with orte_forward_job_control mpirun hands it on to the ranks, and that they go on.
static void standStill(int) { stopWith(child, SIGTSTP); }

/// Returns what was done with it before. A signal that is ignored stays so, unless it `always` asks mpirun to end: a
/// script's Ctrl-C is not for what it left running.
static struct sigaction handle(int signal, bool always) {
  struct sigaction action = {}, before = {};
  action.sa_handler = signal == SIGTSTP ? standStill : handOn;
  sigfillset(&action.sa_mask); // one after the other
  sigaction(signal, nullptr, &before);
  if (before.sa_handler != SIG_IGN || always)
    sigaction(signal, &action, nullptr);
  return before;
}

namespace {
/// Holds a forked process back until all is there that it must not run without.
class Gate {
public:
  Gate() : there(pipe2(ends, O_CLOEXEC) == 0) {}
  ~Gate() {
    for (int end : ends)
      close(end);
  }
  Gate(const Gate &) = delete;

  bool isThere() const { return there; }
  void open() const {
    while (write(ends[1], "", 1) < 0 && errno == EINTR) {
    }
  }
  /// In the forked process. False: who should open it has ended.
  bool pass() const {
    close(ends[1]);
    char opened = 0;
    ssize_t length = 0;
    while ((length = read(ends[0], &opened, 1)) < 0 && errno == EINTR) {
    }
    return length == 1;
  }

private:
  int ends[2] = {-1, -1};
  const bool there;
};
} // namespace

[[noreturn]] static void become(const std::vector<std::string> &arguments, pid_t parent, const Gate &gate,
                                const CapturedOutput *output) {
  beginChild(parent);
  if (output && !output->take())
    _exit(kNotStarted);
  if (int nothing = open("/dev/null", O_RDONLY); nothing >= 0)
    dup2(nothing, STDIN_FILENO);
  for (int signal : {SIGINT, SIGTERM, SIGTSTP})
    std::signal(signal, SIG_DFL);
  std::signal(SIGUSR1, SIG_IGN); // until mpirun takes it
  if (gate.pass())
    execute(arguments);
  _exit(kNotStarted);
}

bool mayUseOthers(const std::string &hosts) {
  for (const char *name : {"SLURM_JOB_ID", "PBS_NODEFILE", "LSB_DJOB_HOSTFILE", "PE_HOSTFILE",
                           "OMPI_MCA_orte_default_hostfile", "OMPI_MCA_hostfile"})
    if (std::getenv(name))
      return true;
  return !hosts.empty();
}

std::vector<std::string> launcher(const std::string &transport, int64_t ranks, const std::string &hosts, bool crowded) {
  if (transport != "mpi")
    return {};
  std::vector<std::string> command = {"mpirun", "-n", std::to_string(ranks), "--mca", "orte_forward_job_control", "1"};
  if (geteuid() == 0)
    command.emplace_back("--allow-run-as-root");
  if (!hosts.empty())
    command.insert(command.end(), {"--hostfile", std::filesystem::absolute(hosts)}); // -x is no file to mpirun
  if (crowded || !mayUseOthers(hosts))
    command.emplace_back("--oversubscribe"); // of cores: Open MPI counts them without their threads
  return command;
}

/// Asks mpirun again each second where it was asked to stop: it loses a request that comes before all its ranks run.
/// Ends it where it has started ranks of the program here, none elsewhere, and is alone: a rank killed at startup can
/// leave it waiting for ever.
static void waitForEnd(const std::string &program, bool isLocal) {
  struct sigaction action = {};
  action.sa_handler = [](int) { hasTicked = 1; }; // and ends a wait
  sigaction(SIGALRM, &action, nullptr);
  constexpr int looksASecond = 10; // until a rank is seen
  constexpr itimerval tick = {{0, 1'000'000 / looksASecond}, {0, 1'000'000 / looksASecond}}, never = {};
  setitimer(ITIMER_REAL, &tick, nullptr);
  bool hadRanks = false;
  int secondsAlone = 0;
  unsigned ticks = 0;
  siginfo_t ended = {};
  while (waitid(P_PID, static_cast<id_t>(child), &ended, WEXITED | WNOWAIT) < 0 && errno == EINTR) {
    if (!hasTicked)
      continue;
    hasTicked = 0;
    hadRanks = hadRanks || llvm::any_of(childrenOf(child), [&](pid_t process) {
                 return !program.empty() && programOf(process) == program;
               });
    if (++ticks % looksASecond != 0)
      continue;
    if (asked > 0 && asked <= requests)
      kill(child, SIGUSR1);
    secondsAlone = hasLivingChildren(child) || !hadRanks ? 0 : secondsAlone + 1;
    constexpr int most = 5;
    if (isLocal && secondsAlone == most) {
      std::cerr << "echelon: mpirun did not end within " << most << " s after all that it had started\n";
      kill(child, SIGKILL);
    }
  }
  setitimer(ITIMER_REAL, &never, nullptr);
  child = 0; // no signal goes to its number from here on
}

/// Its exit status, 128 and the signal that ended it, or kNoProcess, with the reason printed, where nobody knows. Where
/// it failed nothing of it is left.
static int await(const std::vector<std::string> &arguments, const std::string &program, bool isLocal,
                 const CapturedOutput *output) {
  prctl(PR_SET_CHILD_SUBREAPER, 1);                       // of ranks whose mpirun has ended
  const std::vector<pid_t> others = childrenOf(getpid()); // of whoever became this command
  // A file's time is that of the kernel's last tick, up to 10 ms ago.
  const auto began = std::filesystem::file_time_type::clock::now() - std::chrono::milliseconds(10);
  const Gate gate;
  const pid_t parent = getpid(), started = gate.isThere() ? fork() : -1;
  if (started < 0) {
    std::cerr << "echelon: cannot start mpirun: " << std::strerror(errno) << "\n";
    return kNoProcess;
  }
  if (started == 0)
    become(arguments, parent, gate, output);
  child = started;
  if (asked > requests) // between the fork and the line above; once asked it is asked again
    kill(child, SIGTERM);
  {
    const MpirunGuard guard(started, began);
    gate.open(); // whoever is killed from here on, the guard is there
    std::error_code gone;
    waitForEnd(std::filesystem::canonical(program, gone).string(), isLocal);
  }
  int status = 0;
  if (waitpid(started, &status, 0) != started) {
    std::cerr << "echelon: nobody knows how mpirun ended: " << std::strerror(errno) << "\n";
    return kNoProcess;
  }
  const int code = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
  if (WIFSIGNALED(status))
    std::cerr << "echelon: mpirun was ended by signal " << WTERMSIG(status) << " (" << strsignal(WTERMSIG(status))
              << ")\n";
  if (code != Fine) {
    for (pid_t orphan : childrenOf(getpid())) // on a busy machine mpirun may end before ranks that it has killed
      if (!llvm::is_contained(others, orphan)) {
        killTree(orphan);
        waitpid(orphan, nullptr, 0);
      }
    removeFilesOf(started, began);
  }
  return code;
}

int runMpirun(const std::vector<std::string> &arguments, const std::string &program, const std::string &hosts) {
  for (int signal : {SIGINT, SIGTERM, SIGUSR1, SIGTSTP})
    handle(signal, /*always=*/signal == SIGTERM || signal == SIGUSR1);
  const int code = await(arguments, program, !mayUseOthers(hosts), nullptr);
  if (code == kNotStarted)
    std::cerr << "echelon: cannot start mpirun; --transport mpi needs Open MPI (openmpi-bin)\n";
  return code == Fine || code == Usage ? code : static_cast<int>(RunFailed);
}

int captureMpirun(const std::vector<std::string> &arguments, const std::string &program, const CapturedOutput &output) {
  if (!output.isThere())
    return kNoProcess;
  constexpr std::array kSignals = {SIGINT, SIGTERM, SIGHUP, SIGTSTP};
  struct sigaction before[kSignals.size()];
  requests = asked = 0;
  for (size_t i = 0; i < kSignals.size(); ++i)
    before[i] = handle(kSignals[i], /*always=*/false);
  const int code = await(arguments, program, !mayUseOthers(""), &output);
  for (size_t i = 0; i < kSignals.size(); ++i)
    sigaction(kSignals[i], &before[i], nullptr);
  if (asked) {
    TemporaryFolder::removeAll();
    raise(lastAsked);
  }
  return code;
}

} // namespace echelon
