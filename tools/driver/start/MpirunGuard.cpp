#include "tools/driver/start/MpirunGuard.h"

#include "tools/driver/start/MpirunRemains.h"
#include "tools/driver/start/ProcessTree.h"

#include <chrono>
#include <csignal>
#include <fcntl.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <thread>
#include <unistd.h>

namespace echelon {

[[noreturn]] static void guard(pid_t parent, pid_t mpirun, uint64_t began, std::filesystem::file_time_type since) {
  setpgid(0, 0); // Ctrl-C is not for this process
  prctl(PR_SET_NAME, "echelon-guard");
  sigset_t all, death;
  sigfillset(&all);
  sigprocmask(SIG_SETMASK, &all, nullptr);
  closefrom(STDERR_FILENO + 1); // locks of those who started the command, and pipes
  if (open("/dev/null", O_RDWR) == STDERR_FILENO + 1)
    for (int standard : {STDIN_FILENO, STDOUT_FILENO, STDERR_FILENO}) // who reads its output waits for its end
      dup2(STDERR_FILENO + 1, standard);
  prctl(PR_SET_PDEATHSIG, SIGUSR1);
  sigemptyset(&death);
  sigaddset(&death, SIGUSR1);
  while (getppid() == parent)
    sigwaitinfo(&death, nullptr);
  constexpr auto look = std::chrono::milliseconds(50), patience = std::chrono::milliseconds(4000);
  for (auto waited = look; waited < patience && beginOf(mpirun) == began; waited += look)
    std::this_thread::sleep_for(look);
  if (began && beginOf(mpirun) == began) {
    killTree(mpirun);
    std::this_thread::sleep_for(look);
  }
  removeFilesOf(mpirun, since);
  _exit(0);
}

MpirunGuard::MpirunGuard(pid_t mpirun, std::filesystem::file_time_type since) {
  const pid_t parent = getpid();
  const uint64_t began = beginOf(mpirun);
  process = fork();
  if (process == 0)
    guard(parent, mpirun, began, since);
}

MpirunGuard::~MpirunGuard() {
  if (process < 0) // it could not be started
    return;
  kill(process, SIGKILL);
  waitpid(process, nullptr, 0);
}

} // namespace echelon
