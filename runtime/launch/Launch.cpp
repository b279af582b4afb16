#include "runtime/launch/Launch.h"

#include "runtime/launch/Launchers.h"

#include "runtime/launch/Fail.h"

#include <cstdio>
#include <exception>
#include <system_error>
#include <unistd.h>

namespace echelon::runtime {

int launch(const LaunchOptions &options, const std::function<int(Transport &)> &rankMain) {
  if (options.ranks < 1)
    fail("a run has at least one rank, not " + std::to_string(options.ranks));
  if (!(options.deadlineSeconds > 0))
    fail("the deadline is a positive number of seconds");
  if (options.transport == "mpi")
    return launchMpi(options, rankMain);
  if (options.transport == "tcp")
    return launchTcp(options, rankMain);
  if (options.transport != "shm" && options.transport != "threads")
    fail("there is no transport '" + options.transport + "'; there are shm, threads, mpi and tcp");
  if (options.ranks == 1 && (options.transport == "threads" || options.restarts == 0))
    return launchHere(options, rankMain);
  return options.transport == "shm" ? launchProcesses(options, rankMain) : launchThreads(options, rankMain);
}

int runRank(Transport &transport, const std::function<int(Transport &)> &rankMain) {
  try {
    return rankMain(transport);
  } catch (const std::system_error &error) { // of a thread that cannot be started
    fail(std::string("the system refuses what the run needs: ") + error.what() + "; look at ulimit -u and ulimit -v");
  } catch (const std::exception &error) {
    fail(std::string("an error that nobody handles: ") + error.what());
  }
}

std::string asLine(const std::string &message) {
  if (message.empty())
    return "";
  const bool overProgress = isatty(STDOUT_FILENO) && isatty(STDERR_FILENO);
  return (overProgress ? "\nechelon: " : "echelon: ") + message + "\n";
}

int agreedCode(Segment &segment) {
  const int first = segment.status(0).exitCode.load();
  for (int rank = 1; rank < segment.ranks(); ++rank)
    if (int code = segment.status(rank).exitCode.load(); code != first) {
      std::fprintf(stderr, "echelon: ranks ended with different codes: rank 0 with %d, rank %d with %d\n", first, rank,
                   code);
      return 4;
    }
  return first;
}

} // namespace echelon::runtime
