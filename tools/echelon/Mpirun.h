// `--transport mpi`: mpirun as a child, so that signals and exit codes mean the same as under the other transports.
#pragma once
#include <string>
#include <vector>

namespace echelon {

/// Runs mpirun with these arguments, which have it start ranks of `program`, and returns an exit code of the command
/// line. SIGINT, SIGTERM and SIGUSR1 ask the ranks to finish their step, save and end; a second SIGINT or SIGTERM ends
/// them, a second SIGUSR1 is a reminder.
int runMpirun(const std::vector<std::string> &arguments, const std::string &program);

} // namespace echelon
