// mpirun ends its ranks within seconds when it gets SIGINT or SIGTERM, and returns 1 whatever they return. SIGUSR1 it
// hands on to them: they take it as a request to stop, however often it comes.
#include "tools/echelon/Mpirun.h"

#include "tools/echelon/ChildProcess.h"
#include "tools/echelon/Commands.h"
#include "tools/echelon/MpirunGuard.h"
#include "tools/echelon/MpirunRemains.h"
#include "tools/echelon/ProcessTree.h"

#include "llvm/ADT/STLExtras.h"

#include <cerrno>
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

static volatile sig_atomic_t child = 0, asked = 0, aSecondIsOver = 0;

static void handOn(int signal) {
  if (signal == SIGUSR1 && asked) // a reminder
    return;
  asked = asked + 1;
  if (child > 0)
    kill(child, asked == 1 ? SIGUSR1 : SIGTERM);
}

/// Ctrl-Z: with orte_forward_job_control mpirun hands it on to the ranks, and that they go on.
static void standStill(int) {
  if (child > 0)
    kill(child, SIGTSTP);
  stopUntilContinued();
  if (child > 0)
    kill(child, SIGCONT);
}

[[noreturn]] static void become(const std::vector<std::string> &arguments, pid_t parent) {
  setpgid(0, 0); // Ctrl-C reaches this process's parent alone
  prctl(PR_SET_PDEATHSIG, SIGTERM);
  if (getppid() != parent)
    _exit(kNotStarted);
  if (int nothing = open("/dev/null", O_RDONLY); nothing >= 0)
    dup2(nothing, STDIN_FILENO);
  for (int signal : {SIGINT, SIGTERM, SIGTSTP})
    std::signal(signal, SIG_DFL);
  std::signal(SIGUSR1, SIG_IGN); // until mpirun takes it
  execute(arguments);
  _exit(kNotStarted);
}

/// Whether a batch system, or the user, may have mpirun start ranks on other machines.
static bool mayUseOthers(const std::vector<std::string> &arguments) {
  for (const char *name : {"SLURM_JOB_ID", "PBS_NODEFILE", "LSB_DJOB_HOSTFILE", "PE_HOSTFILE",
                           "OMPI_MCA_orte_default_hostfile", "OMPI_MCA_hostfile"})
    if (std::getenv(name))
      return true;
  return llvm::is_contained(arguments, "--hostfile");
}

/// Asks mpirun again each second where it was asked to stop: it loses a request that comes before all its ranks run.
/// Ends it where it has started ranks of the program here, none elsewhere, and is alone: a rank killed at startup can
/// leave it waiting for ever.
static void waitForEnd(const std::string &program, bool isLocal) {
  struct sigaction action = {};
  action.sa_handler = [](int) { aSecondIsOver = 1; }; // and ends a wait
  sigaction(SIGALRM, &action, nullptr);
  constexpr itimerval second = {{1, 0}, {1, 0}}, never = {};
  setitimer(ITIMER_REAL, &second, nullptr);
  bool hadRanks = false;
  int secondsAlone = 0;
  siginfo_t ended = {};
  while (waitid(P_PID, static_cast<id_t>(child), &ended, WEXITED | WNOWAIT) < 0 && errno == EINTR) {
    if (!aSecondIsOver)
      continue;
    aSecondIsOver = 0;
    if (asked == 1)
      kill(child, SIGUSR1);
    hadRanks |= llvm::any_of(childrenOf(child), [&](pid_t process) { return programOf(process) == program; });
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

int runMpirun(const std::vector<std::string> &arguments, const std::string &program) {
  struct sigaction action = {};
  action.sa_handler = handOn;
  for (int signal : {SIGTERM, SIGUSR1})
    sigaction(signal, &action, nullptr);
  if (std::signal(SIGINT, handOn) == SIG_IGN) // a script's Ctrl-C is not for what it left running
    std::signal(SIGINT, SIG_IGN);
  if (std::signal(SIGTSTP, standStill) == SIG_IGN)
    std::signal(SIGTSTP, SIG_IGN);
  prctl(PR_SET_CHILD_SUBREAPER, 1);                       // of ranks whose mpirun was killed
  const std::vector<pid_t> others = childrenOf(getpid()); // of whoever became this command
  const auto began = std::filesystem::file_time_type::clock::now();
  const pid_t parent = getpid(), started = fork();
  if (started < 0) {
    std::cerr << "echelon: cannot start mpirun: " << std::strerror(errno) << "\n";
    return RunFailed;
  }
  if (started == 0)
    become(arguments, parent);
  child = started;
  if (asked > 1) // between the fork and the line above; once asked it is asked again
    kill(child, SIGTERM);
  {
    const MpirunGuard guard(started, began);
    std::error_code gone;
    waitForEnd(std::filesystem::canonical(program, gone).string(), !mayUseOthers(arguments));
  }
  int status = 0;
  if (waitpid(started, &status, 0) != started) {
    std::cerr << "echelon: nobody knows how mpirun ended: " << std::strerror(errno) << "\n";
    return RunFailed;
  }
  const int code = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
  if (WIFSIGNALED(status)) {
    std::cerr << "echelon: mpirun was ended by signal " << WTERMSIG(status) << " (" << strsignal(WTERMSIG(status))
              << ")\n";
    for (pid_t orphan : childrenOf(getpid()))
      if (!llvm::is_contained(others, orphan)) {
        killTree(orphan);
        waitpid(orphan, nullptr, 0);
      }
  }
  if (code != Fine)
    removeFilesOf(started, began);
  if (code == kNotStarted)
    std::cerr << "echelon: cannot start mpirun; --transport mpi needs Open MPI (openmpi-bin)\n";
  return code == Fine || code == Usage ? code : static_cast<int>(RunFailed);
}

} // namespace echelon
