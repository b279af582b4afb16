#include "tools/driver/start/ChildProcess.h"

#include "tools/driver/build/TemporaryFolder.h"

#include "llvm/Support/Program.h"

#include <array>
#include <cerrno>
#include <csignal>
#include <cstdlib>
#include <cstring>
#include <iostream>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

namespace echelon {

void execute(const std::vector<std::string> &arguments) {
  std::vector<char *> raw;
  for (const std::string &argument : arguments)
    raw.push_back(const_cast<char *>(argument.c_str()));
  raw.push_back(nullptr);
  llvm::ErrorOr<std::string> program = llvm::sys::findProgramByName(arguments[0]); // in PATH, where it has no folder
  if (program)
    execv(program->c_str(), raw.data());
  else
    errno = program.getError().value();
}

void beginChild(pid_t parent) {
  setpgid(0, 0);
  prctl(PR_SET_PDEATHSIG, SIGTERM);
  if (getppid() != parent) // it has ended already
    _exit(kNotStarted);
}

void stopWith(pid_t child, int signal) {
  const int before = errno;
  if (child != 0)
    kill(child, signal);
  struct sigaction handler = {}, usual = {};
  usual.sa_handler = SIG_DFL;
  sigaction(SIGTSTP, &usual, &handler);
  sigset_t stop;
  sigemptyset(&stop);
  sigaddset(&stop, SIGTSTP);
  raise(SIGTSTP);
  sigprocmask(SIG_UNBLOCK, &stop, nullptr); // here it stops
  sigprocmask(SIG_BLOCK, &stop, nullptr);
  sigaction(SIGTSTP, &handler, nullptr);
  if (child != 0)
    kill(child, SIGCONT);
  errno = before;
}

CapturedOutput::CapturedOutput() : file(memfd_create("echelon-output", MFD_CLOEXEC)), reason(file < 0 ? errno : 0) {}

CapturedOutput::~CapturedOutput() {
  if (file >= 0)
    close(file);
}

std::string CapturedOutput::text() const {
  std::string all;
  char part[4096];
  for (ssize_t length; (length = pread(file, part, sizeof part, static_cast<off_t>(all.size()))) > 0;)
    all.append(part, static_cast<size_t>(length));
  return all;
}

bool CapturedOutput::isThere() const {
  if (file < 0)
    std::cerr << "echelon: cannot keep what a process prints: " << std::strerror(reason) << "\n";
  return file >= 0;
}

bool CapturedOutput::take() const {
  for (int standard : {STDOUT_FILENO, STDERR_FILENO})
    if (dup2(file, standard) < 0)
      return false;
  return setenv("LC_ALL", "C.UTF-8", 1) == 0;
}

namespace {
volatile sig_atomic_t running = 0, asked = 0;

/// While it lives SIGINT, SIGTERM and SIGHUP end what runs, and all that it started; with Ctrl-Z it stands still, too.
/// They are blocked until awaited(): none is lost between a fork and what follows it.
class Signals {
public:
  Signals() {
    sigset_t all;
    sigemptyset(&all);
    for (int signal : kSignals)
      sigaddset(&all, signal);
    sigprocmask(SIG_BLOCK, &all, &unblocked);
    for (size_t i = 0; i < kSignals.size(); ++i) {
      struct sigaction action = {};
      action.sa_handler = kSignals[i] == SIGTSTP ? standStill : end;
      sigaction(kSignals[i], nullptr, &before[i]);
      if (before[i].sa_handler != SIG_IGN)
        sigaction(kSignals[i], &action, nullptr);
    }
  }
  ~Signals() { restore(); }
  Signals(const Signals &) = delete;

  void awaited() const { sigprocmask(SIG_SETMASK, &unblocked, nullptr); }
  void restore() const {
    for (size_t i = 0; i < kSignals.size(); ++i)
      sigaction(kSignals[i], &before[i], nullptr);
    awaited();
  }

private:
  static void end(int signal) {
    const int reason = errno;
    asked = signal;
    if (running > 0)
      kill(-running, SIGTERM);
    errno = reason;
  }
  static void standStill(int) { stopWith(-running, SIGSTOP); }

  static constexpr std::array kSignals = {SIGINT, SIGTERM, SIGHUP, SIGTSTP};
  struct sigaction before[kSignals.size()];
  sigset_t unblocked;
};

[[noreturn]] void become(const std::vector<std::string> &arguments, const CapturedOutput &output,
                         const std::string &temporary, pid_t parent) {
  beginChild(parent);
  if (!output.take())
    _exit(kNotStarted);
  if (!temporary.empty())
    setenv("TMPDIR", temporary.c_str(), 1);
  execute(arguments);
  _exit(kNotStarted);
}

/// Its exit status, or 128 and the signal; kNoProcess, with the reason printed, where nobody knows.
int waitFor(pid_t child) {
  siginfo_t ended = {};
  while (waitid(P_PID, static_cast<id_t>(child), &ended, WEXITED | WNOWAIT) < 0 && errno == EINTR) {
  }
  running = 0;
  if (ended.si_code != CLD_EXITED) // what it started may go on without it
    kill(-child, SIGKILL);
  int status = 0;
  if (waitpid(child, &status, 0) != child) {
    std::cerr << "echelon: nobody knows how a process ended: " << std::strerror(errno) << "\n";
    return kNoProcess;
  }
  return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}
} // namespace

int runProgram(const std::vector<std::string> &arguments, const CapturedOutput &output, const std::string &temporary) {
  int status = kNoProcess;
  if (!output.isThere())
    return status;
  {
    const Signals signals;
    const pid_t parent = getpid(), child = fork();
    if (child == 0) {
      signals.restore();
      become(arguments, output, temporary, parent);
    }
    if (child < 0) {
      std::cerr << "echelon: cannot start a process: " << std::strerror(errno) << "\n";
    } else {
      setpgid(child, child); // whoever comes first
      running = child;
      signals.awaited();
      status = waitFor(child);
    }
  }
  if (asked) {
    TemporaryFolder::removeAll();
    raise(asked);
  }
  return status;
}

} // namespace echelon
