// kill_at_call NAME NUMBER PROGRAM ARGUMENT...: runs a program and kills it, with all its processes and threads, at its
// NUMBER-th system call (from 0) since the first one that names a path with NAME in it; counted are the calls of the
// thread that made that first one. Calls that only wait for another thread are not counted, since their number differs
// from run to run. Prints "killed at CALL" and ends with 0; where the program ends before, "ended after COUNT" and 3.
#include <cerrno>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <map>
#include <set>
#include <string>
#include <sys/ptrace.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <sys/user.h>
#include <sys/wait.h>
#include <unistd.h>

namespace {

/// Of a thread: its process.
pid_t processOf(pid_t thread) {
  std::FILE *file = std::fopen(("/proc/" + std::to_string(thread) + "/status").c_str(), "r");
  pid_t process = thread;
  char line[256];
  while (file && std::fgets(line, sizeof line, file))
    if (std::sscanf(line, "Tgid: %d", &process) == 1)
      break;
  if (file)
    std::fclose(file);
  return process;
}

std::string textAt(pid_t thread, unsigned long long address) {
  char text[512] = {};
  iovec here = {text, sizeof text - 1}, there = {reinterpret_cast<void *>(address), sizeof text - 1};
  if (process_vm_readv(thread, &here, 1, &there, 1, 0) <= 0) { // perhaps the page after it is missing
    there.iov_len = here.iov_len = 4096 - address % 4096 < sizeof text ? 4096 - address % 4096 : 0;
    if (!there.iov_len || process_vm_readv(thread, &here, 1, &there, 1, 0) <= 0)
      return "";
  }
  return text;
}

bool names(pid_t thread, const user_regs_struct &registers, const std::string &name) {
  switch (registers.orig_rax) {
  case SYS_open:
  case SYS_mkdir:
  case SYS_rename:
  case SYS_unlink:
  case SYS_rmdir:
    return textAt(thread, registers.rdi).find(name) != std::string::npos;
  case SYS_openat:
  case SYS_mkdirat:
  case SYS_unlinkat:
  case SYS_newfstatat:
    return textAt(thread, registers.rsi).find(name) != std::string::npos;
  default:
    return false;
  }
}

bool onlyWaits(const user_regs_struct &registers) {
  switch (registers.orig_rax) {
  case SYS_futex:
  case SYS_sched_yield:
  case SYS_nanosleep:
  case SYS_clock_nanosleep:
  case SYS_poll:
  case SYS_restart_syscall:
    return true;
  default:
    return false;
  }
}

} // namespace

int main(int argc, char **argv) {
  if (argc < 4) {
    std::fprintf(stderr, "kill_at_call NAME NUMBER PROGRAM ARGUMENT...\n");
    return 2;
  }
  const std::string name = argv[1];
  const long number = std::strtol(argv[2], nullptr, 10);
  const pid_t child = fork();
  if (child == 0) {
    ptrace(PTRACE_TRACEME, 0, nullptr, nullptr);
    raise(SIGSTOP);
    execvp(argv[3], argv + 3);
    _exit(127);
  }
  int status;
  if (waitpid(child, &status, 0) != child || !WIFSTOPPED(status) ||
      ptrace(PTRACE_SETOPTIONS, child, nullptr,
             PTRACE_O_TRACESYSGOOD | PTRACE_O_TRACECLONE | PTRACE_O_TRACEFORK | PTRACE_O_TRACEVFORK |
                 PTRACE_O_TRACEEXEC | PTRACE_O_EXITKILL) != 0) {
    std::fprintf(stderr, "kill_at_call: cannot trace: %s\n", std::strerror(errno));
    return 2;
  }
  std::set<pid_t> threads = {child};
  std::map<pid_t, bool> inCall; // of a thread
  pid_t counted = 0;            // the thread whose calls count
  long count = 0;
  ptrace(PTRACE_SYSCALL, child, nullptr, nullptr);
  while (!threads.empty()) {
    const pid_t thread = waitpid(-1, &status, __WALL);
    if (thread < 0)
      break;
    if (!WIFSTOPPED(status)) {
      threads.erase(thread);
      continue;
    }
    threads.insert(thread);
    int passOn = 0;
    const int signal = WSTOPSIG(status);
    if (signal == (SIGTRAP | 0x80)) {
      bool &inside = inCall[thread];
      inside = !inside;
      user_regs_struct registers;
      if (inside && ptrace(PTRACE_GETREGS, thread, nullptr, &registers) == 0) {
        if (!counted && names(thread, registers, name))
          counted = thread;
        if (thread == counted && !onlyWaits(registers) && count++ == number) {
          std::set<pid_t> processes;
          for (const pid_t each : threads)
            processes.insert(processOf(each));
          for (const pid_t process : processes)
            kill(process, SIGKILL);
          while (waitpid(-1, &status, __WALL) > 0 || errno == EINTR) {
          }
          std::printf("killed at %lld\n", static_cast<long long>(registers.orig_rax));
          return 0;
        }
      }
    } else if (status >> 16 == 0 && signal != SIGSTOP && signal != SIGTRAP) {
      passOn = signal; // not an event, nor the stop that a new thread begins with
    }
    ptrace(PTRACE_SYSCALL, thread, nullptr, passOn);
  }
  std::printf("ended after %ld\n", count);
  return 3;
}
