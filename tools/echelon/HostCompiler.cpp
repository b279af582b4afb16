// The host compiler is started with fork and exec, so that no name in a path is ever read by a shell.
#include "tools/echelon/HostCompiler.h"

#include "tools/echelon/Paths.h"
#include "tools/echelon/TemporaryFolder.h"

#include "llvm/ADT/StringRef.h"
#include "llvm/Support/Program.h"

#include <array>
#include <cerrno>
#include <csignal>
#include <cstdlib>
#include <fcntl.h>
#include <fstream>
#include <sstream>
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

void stopUntilContinued() {
  const int before = errno;
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
  errno = before;
}

namespace {
volatile sig_atomic_t running = 0, asked = 0;

/// While it lives SIGINT, SIGTERM and SIGHUP end what runs, and all that it started; with Ctrl-Z it stands still, too.
class Signals {
public:
  Signals() {
    for (size_t i = 0; i < kSignals.size(); ++i) {
      struct sigaction action = {};
      action.sa_handler = kSignals[i] == SIGTSTP ? standStill : end;
      sigaction(kSignals[i], nullptr, &before[i]);
      if (before[i].sa_handler != SIG_IGN)
        sigaction(kSignals[i], &action, nullptr);
    }
  }
  ~Signals() {
    for (size_t i = 0; i < kSignals.size(); ++i)
      sigaction(kSignals[i], &before[i], nullptr);
  }

private:
  static void end(int signal) {
    asked = signal;
    if (running > 0)
      kill(-running, SIGTERM);
  }
  static void standStill(int) {
    if (running > 0)
      kill(-running, SIGSTOP);
    stopUntilContinued();
    if (running > 0)
      kill(-running, SIGCONT);
  }

  static constexpr std::array kSignals = {SIGINT, SIGTERM, SIGHUP, SIGTSTP};
  struct sigaction before[kSignals.size()];
};

/// Its exit status, or 128 and the signal.
int waitFor(pid_t child) {
  const Signals signals;
  running = child;
  if (asked) // before the line above
    kill(-child, SIGTERM);
  siginfo_t ended = {};
  while (waitid(P_PID, static_cast<id_t>(child), &ended, WEXITED | WNOWAIT) < 0 && errno == EINTR) {
  }
  running = 0;
  if (ended.si_code != CLD_EXITED) // what it started may go on without it
    kill(-child, SIGKILL);
  int status = 0;
  if (waitpid(child, &status, 0) != child)
    return kNotStarted; // nobody knows how it ended
  return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}
} // namespace

int runProgram(const std::vector<std::string> &arguments, const std::string &outputFile, const std::string &temporary) {
  const pid_t parent = getpid();
  pid_t child = fork();
  if (child < 0)
    return kNotStarted;
  if (child == 0) {
    setpgid(0, 0);
    prctl(PR_SET_PDEATHSIG, SIGTERM); // it does not outlive this process
    if (getppid() != parent)
      _exit(kNotStarted);
    if (!outputFile.empty()) {
      int file = open(outputFile.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);
      if (file >= 0) {
        dup2(file, STDOUT_FILENO);
        dup2(file, STDERR_FILENO);
      }
    }
    if (!temporary.empty())
      setenv("TMPDIR", temporary.c_str(), 1);
    setenv("LC_ALL", "C.UTF-8", 1); // what it says is looked into
    execute(arguments);
    _exit(kNotStarted);
  }
  setpgid(child, child); // whoever comes first
  const int status = waitFor(child);
  if (asked) {
    TemporaryFolder::removeAll();
    raise(asked);
  }
  return status;
}

static void appendWords(std::vector<std::string> &list, const std::string &words) {
  std::istringstream stream(words);
  for (std::string word; stream >> word;)
    list.push_back(word);
}

/// A file as the host compiler takes it for one: -x would be an option, @x a file of options.
static std::string operand(const std::string &file) {
  return llvm::StringRef(file).starts_with("-") || llvm::StringRef(file).starts_with("@") ? "./" + file : file;
}

std::vector<std::string> hostCommand(const std::string &source, const std::string &executable) {
  const char *chosen = std::getenv("CXX"), *flags = std::getenv("CXXFLAGS");
  std::vector<std::string> command{chosen && *chosen ? chosen : ECHELON_HOST_COMPILER};
  appendWords(command, "-std=c++17 " ECHELON_HOST_FLAGS);
  appendWords(command, flags ? flags : "");
  command.push_back("-I" + includeFolder());
  command.insert(command.end(), {operand(source), "-o", operand(executable)});
  command.push_back(runtimeLibrary());
  appendWords(command, ECHELON_HOST_LIBRARIES);
  return command;
}

int compileHost(const std::string &source, const std::string &executable, std::string &log) {
  std::string said = executable + ".log";
  const TemporaryFolder own; // a compiler that is killed leaves its files
  int status = runProgram(hostCommand(source, executable), said, own.path());
  if (status == 0) {
    unlink(said.c_str());
    return 0;
  }
  std::ifstream stream(said);
  std::stringstream text;
  text << stream.rdbuf();
  log = text.str();
  return status;
}

} // namespace echelon
