// mpirun ends its ranks within seconds when it gets SIGINT or SIGTERM, and returns 1 whatever they return. SIGUSR1 it
// hands on to them: they take it as a request to stop.
#include "tools/echelon/Mpirun.h"

#include "tools/echelon/Commands.h"
#include "tools/echelon/HostCompiler.h"

#include <cerrno>
#include <csignal>
#include <cstring>
#include <fcntl.h>
#include <iostream>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

namespace echelon {

static volatile sig_atomic_t child = 0, asked = 0;

static void handOn(int) {
  asked = asked + 1;
  if (child > 0)
    kill(child, asked == 1 ? SIGUSR1 : SIGTERM);
}

int runMpirun(const std::vector<std::string> &arguments) {
  struct sigaction action = {};
  action.sa_handler = handOn;
  for (int signal : {SIGINT, SIGTERM, SIGUSR1})
    sigaction(signal, &action, nullptr);
  pid_t started = fork();
  if (started < 0) {
    std::cerr << "echelon: cannot start mpirun: " << std::strerror(errno) << "\n";
    return RunFailed;
  }
  if (started == 0) {
    setpgid(0, 0); // Ctrl-C reaches this process's parent alone
    prctl(PR_SET_PDEATHSIG, SIGTERM);
    if (int nothing = open("/dev/null", O_RDONLY); nothing >= 0)
      dup2(nothing, STDIN_FILENO);
    for (int signal : {SIGINT, SIGTERM, SIGUSR1})
      std::signal(signal, SIG_DFL);
    execute(arguments);
    _exit(127);
  }
  child = started;
  if (asked) // between the fork and the line above
    kill(child, SIGUSR1);
  int status = 0;
  while (waitpid(started, &status, 0) < 0 && errno == EINTR) {
  }
  child = 0;
  int code = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
  if (WIFSIGNALED(status))
    std::cerr << "echelon: mpirun was ended by signal " << WTERMSIG(status) << " (" << strsignal(WTERMSIG(status))
              << ")\n";
  if (code == 127)
    std::cerr << "echelon: cannot start mpirun; --transport mpi needs Open MPI (openmpi-bin)\n";
  return code == Fine || code == Usage ? code : static_cast<int>(RunFailed);
}

} // namespace echelon
