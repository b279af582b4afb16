// Starts the ranks of a program inside the program: forks them, starts them as threads, or joins those that
// mpirun, srun or torchrun has started.
#pragma once

#include "runtime/transport/Transport.h"

#include <functional>
#include <string>

namespace echelon::runtime {

struct LaunchOptions {
  std::string transport = "shm"; // shm, threads, mpi or tcp
  int ranks = 1;                 // mpi, tcp: must be what mpirun, srun or torchrun started
  double deadlineSeconds = 10;   // see Transport::deadline
  size_t sharedBytesPerRank = 0; // shm: what Transport::allocate hands out as memory that the peers reach
  int restarts = 0;              // shm: how often all ranks are started again after one died or was given up
  std::string store;             // tcp: HOST:PORT where the ranks meet; empty: where the environment says
  std::string identity;          // tcp: what all ranks run; ranks of something else are sent away
  std::string lastWords;         // told once, on standard error, where a second signal ends the run at once
  /// Called in the launcher before each of these; returns what is wrong, and then the run ends, or an empty string.
  std::function<std::string()> beforeRestart;
};

/// Runs rankMain once a rank and returns the exit code of the program: 0 when all ranks returned 0; a rank's own code
/// when every rank returned that code; else 4, after naming the rank that died, failed or did not come (with its step
/// and its last collective) and stopping the others. With mpi, and tcp where a launcher has started
/// the ranks, each process returns its own rank's code.
int launch(const LaunchOptions &options, const std::function<int(Transport &)> &rankMain);

} // namespace echelon::runtime
