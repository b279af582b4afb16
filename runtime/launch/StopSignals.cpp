#include "runtime/launch/Launchers.h"

#include <csignal>
#include <unistd.h>

namespace echelon::runtime {

static std::atomic<SegmentHeader *> watched{nullptr};
static std::atomic<int> received{0};
static std::atomic<bool> endsOnSecond{false};
// What users, batch systems and mpirun send.
static constexpr int kSignals[] = {SIGINT, SIGTERM, SIGUSR1};
static struct sigaction before[3];
// A signal may come whenever it wants: it prints what lies here.
static char lastWords[400];
static std::atomic<size_t> lastWordsLength{0};

static void onSignal(int signal) {
  if (SegmentHeader *header = watched.load())
    header->stopRequested.store(1);
  if (signal == SIGUSR1 && received.load() > 0) // a reminder
    return;
  if (received.fetch_add(1) + 1 > 1 && endsOnSecond.load()) {
    const ssize_t written = write(STDERR_FILENO, lastWords, lastWordsLength.load());
    static_cast<void>(written); // what else could be done
    _exit(4);
  }
}

/// Libraries' kernels may use the register of the stack for something else: what a signal pushes there would overwrite
/// the heap. Processes inherit it, threads do not.
static void useOwnStack(bool use) {
  alignas(64) static char memory[1 << 16];
  stack_t stack = {};
  stack.ss_sp = memory;
  stack.ss_size = sizeof memory;
  stack.ss_flags = use ? 0 : SS_DISABLE;
  sigaltstack(&stack, nullptr);
}

StopSignals::StopSignals(SegmentHeader &header, bool endOnSecond) {
  watched.store(&header);
  received.store(0);
  endsOnSecond.store(endOnSecond);
  struct sigaction action = {};
  action.sa_handler = onSignal;
  action.sa_flags = SA_RESTART | SA_ONSTACK;
  useOwnStack(true);
  for (int i = 0; i < 3; ++i) {
    sigaction(kSignals[i], nullptr, &before[i]);
    if (kSignals[i] != SIGINT || before[i].sa_handler != SIG_IGN) // a script's Ctrl-C is not for what it left running
      sigaction(kSignals[i], &action, nullptr);
  }
}

StopSignals::~StopSignals() {
  for (int i = 0; i < 3; ++i)
    sigaction(kSignals[i], &before[i], nullptr);
  useOwnStack(false);
  watched.store(nullptr);
}

void StopSignals::block() {
  sigset_t all;
  sigemptyset(&all);
  for (int signal : kSignals)
    sigaddset(&all, signal);
  pthread_sigmask(SIG_BLOCK, &all, nullptr);
}

void StopSignals::say(const std::string &words) {
  lastWordsLength.store(0);
  const std::string line = asLine(words);
  lastWordsLength.store(line.copy(lastWords, sizeof lastWords));
}

int StopSignals::signals() { return received.load(); }

} // namespace echelon::runtime
