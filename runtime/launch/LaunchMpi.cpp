// A rank that mpirun or srun has started: this process is it.

#include "runtime/launch/Launchers.h"

#include "runtime/launch/Fail.h"
#include "runtime/transport/mpi/MpiPlugin.h"

#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <dlfcn.h>

namespace echelon::runtime {

// Beside the library this program was linked with, else wherever the program's RUNPATH and the system look.
static void *loadPlugin() {
  for (const char *path : {ECHELON_MPI_PLUGIN, "libechelon_mpi.so"})
    if (void *plugin = dlopen(path, RTLD_NOW | RTLD_GLOBAL)) // MPI's own plugins look for its symbols
      return plugin;
  const char *reason = dlerror();
  fail(std::string("the mpi transport cannot be loaded: ") + (reason ? reason : "unknown reason"));
}

template <typename Function> static Function *find(void *plugin, const char *symbol) {
  void *address = dlsym(plugin, symbol);
  if (!address)
    fail(std::string("the mpi transport has no ") + symbol + "; it belongs to another version");
  return reinterpret_cast<Function *>(address);
}

int launchMpi(const LaunchOptions &options, const RankMain &rankMain) {
  std::signal(SIGUSR1, SIG_IGN); // reminders come before the handlers below are there, and after
  void *plugin = loadPlugin();
  auto *join = find<MpiJoinFunction>(plugin, kMpiJoinSymbol);
  auto *leave = find<MpiLeaveFunction>(plugin, kMpiLeaveSymbol);

  SegmentHeader header; // of this process alone: what the signal handlers write to
  StopSignals signals(header, true);
  MpiJoin wishes;
  wishes.ranks = options.ranks;
  wishes.deadlineSeconds = options.deadlineSeconds;
  wishes.stopRequested = &header.stopRequested;
  wishes.fail = [](const char *message) { fail(message); };
  Transport *transport = join(wishes);
  setRankOfProcess(transport);
  const int rank = transport->rank();
  if (rank == 0)
    StopSignals::say(options.lastWords);
  const int code = runRank(*transport, rankMain);
  std::fflush(nullptr);
  setRankOfProcess(nullptr);
  if (!leave(transport)) {
    std::fprintf(stderr, "echelon: rank %d ended, and others did not within %g s\n", rank, options.deadlineSeconds);
    std::_Exit(4); // mpirun and srun end the others
  }
  return code;
}

} // namespace echelon::runtime
