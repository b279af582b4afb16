// What the environment says of this process where torchrun, srun or mpirun has started it: which rank it is, and where
// the ranks meet.
#pragma once

#include "runtime/transport/tcp/Member.h"

#include <functional>
#include <string>

namespace echelon::runtime {

/// Value of a variable; null where it is not set. Tests give a table of their own.
using Environment = std::function<const char *(const char *)>;

struct LaunchedAs {
  std::string launcher; // "torchrun", "srun", "mpirun"; empty: none has started this process
  tcp::Member member;   // where there is one
};

/// Reads who this process is; returns what is wrong, or an empty string. The first launcher counts whose variables are
/// all there: mpirun (OMPI_COMM_WORLD_RANK, _SIZE, _LOCAL_RANK), srun (SLURM_PROCID, SLURM_NTASKS, SLURM_LOCALID),
/// torchrun (RANK, WORLD_SIZE, LOCAL_RANK), which comes first where TORCHELASTIC_RUN_ID says that it is the innermost.
///
/// ranks: how many the program has. store: HOST:PORT, or empty; then MASTER_ADDR and MASTER_PORT, or for srun the first
/// machine of the step and a port drawn from the job. Where torchrun's agent listens at MASTER_PORT itself
/// (TORCHELASTIC_USE_AGENT_STORE), it is the port after that.
std::string readLaunchedAs(const Environment &environment, const std::string &store, int ranks, LaunchedAs &launched);

/// Reads "HOST:PORT" or "[ADDRESS]:PORT", with a port from 1 to 65535; false where it is neither.
bool readHostAndPort(const std::string &text, std::string &host, int &port);

/// The first of a list of hosts as Slurm writes it: "node[007-012,15],login" is node007. Empty where it is no list.
std::string firstHost(const std::string &list);

} // namespace echelon::runtime
