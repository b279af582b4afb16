// `--transport mpi`: mpirun as a child, so that signals and exit codes mean the same as under the other transports.
#pragma once
#include "tools/driver/start/ChildProcess.h"
#include <cstdint>
#include <string>
#include <vector>

namespace echelon {

/// What comes before the executable to start it on so many ranks: nothing, or mpirun with its options. `hosts`: a file
/// of machines; empty: those of the batch system, or this one. `crowded`: more ranks than the batch system allows are
/// fine.
std::vector<std::string> launcher(const std::string &transport, int64_t ranks, const std::string &hosts = "",
                                  bool crowded = false);

/// Whether a batch system, the user's settings or `hosts` may have mpirun start ranks on other machines.
bool mayUseOthers(const std::string &hosts);

/// Runs mpirun with these arguments, which have it start ranks of `program` on `hosts`, and returns an exit code of the
/// command line. SIGINT, SIGTERM and SIGUSR1 ask the ranks to finish their step, save and end; a second SIGINT or
/// SIGTERM ends them, a second SIGUSR1 is a reminder.
int runMpirun(const std::vector<std::string> &arguments, const std::string &program, const std::string &hosts);

/// The same on this machine, with what they print in `output`; returns as runProgram does. SIGINT, SIGTERM and SIGHUP
/// end them, and then this process, whose temporary folders go.
int captureMpirun(const std::vector<std::string> &arguments, const std::string &program, const CapturedOutput &output);

} // namespace echelon
