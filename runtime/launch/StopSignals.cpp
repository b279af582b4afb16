#include "runtime/launch/Launchers.h"

#include <csignal>
#include <unistd.h>

namespace echelon::runtime {

static std::atomic<SegmentHeader *> watched{nullptr};
static std::atomic<int> received{0};
static std::atomic<bool> endsOnSecond{false};
static struct sigaction before[2];

static void onSignal(int) {
  if (SegmentHeader *header = watched.load())
    header->stopRequested.store(1);
  if (received.fetch_add(1) + 1 > 1 && endsOnSecond.load())
    _exit(4);
}

StopSignals::StopSignals(SegmentHeader &header, bool endOnSecond) {
  watched.store(&header);
  received.store(0);
  endsOnSecond.store(endOnSecond);
  struct sigaction action = {};
  action.sa_handler = onSignal;
  action.sa_flags = SA_RESTART;
  sigaction(SIGINT, &action, &before[0]);
  sigaction(SIGTERM, &action, &before[1]);
}

StopSignals::~StopSignals() {
  sigaction(SIGINT, &before[0], nullptr);
  sigaction(SIGTERM, &before[1], nullptr);
  watched.store(nullptr);
}

int StopSignals::signals() { return received.load(); }

} // namespace echelon::runtime
