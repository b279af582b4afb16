// `--transport mpi`: mpirun as a child, so that signals and exit codes mean the same as under the other transports.
#pragma once
#include <string>
#include <vector>

namespace echelon {

/// Runs mpirun with these arguments and returns an exit code of the command line. SIGINT and SIGTERM ask the ranks to
/// finish their step, save and end; the second one ends them.
int runMpirun(const std::vector<std::string> &arguments);

} // namespace echelon
