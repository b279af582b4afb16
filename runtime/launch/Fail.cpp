#include "runtime/launch/Fail.h"

#include "runtime/transport/Transport.h"

#include <atomic>
#include <cstdio>
#include <cstdlib>

namespace echelon::runtime {

static thread_local Transport *rankOfThread = nullptr;
static std::atomic<Transport *> rankOfProcess{nullptr};

void setRankOfThread(Transport *transport) { rankOfThread = transport; }
void setRankOfProcess(Transport *transport) { rankOfProcess = transport; }

void fail(const std::string &message) {
  if (Transport *transport = rankOfThread ? rankOfThread : rankOfProcess.load())
    transport->stop(message.c_str());
  complain(message);
  std::_Exit(4);
}

void complain(const std::string &message) {
  std::fflush(stdout);
  std::fprintf(stderr, "echelon: %s\n", printable(message, Lines::Indented).c_str());
}

} // namespace echelon::runtime
