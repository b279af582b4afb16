// What passes between a program and libechelon_mpi.so, which it loads when it is asked for the mpi transport: programs
// do not link MPI.
#pragma once

#include "runtime/transport/Transport.h"

#include <atomic>

namespace echelon::runtime {

struct MpiJoin {
  int ranks;              // how many the program wants
  double deadlineSeconds; // see Transport::deadline; six of them for MPI to start all ranks
  const std::atomic<int> *stopRequested;
  void (*fail)(const char *message); // does not return
};

/// Initialises MPI and joins its world.
using MpiJoinFunction = Transport *(const MpiJoin &);
/// Waits for the other ranks to leave too and finalises MPI; false if one does not come, then MPI is left as it is.
using MpiLeaveFunction = bool(Transport *);

inline constexpr const char *kMpiJoinSymbol = "echelonMpiJoin";
inline constexpr const char *kMpiLeaveSymbol = "echelonMpiLeave";

} // namespace echelon::runtime
