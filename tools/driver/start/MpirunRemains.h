// What mpirun and its ranks remove when they end, unless they are killed.
#pragma once
#include <filesystem>
#include <sys/types.h>

namespace echelon {

/// Removes the session folder of an mpirun that has ended, and names in /dev/shm that ranks of this machine have made
/// since then and that nobody uses.
void removeFilesOf(pid_t mpirun, std::filesystem::file_time_type since);

} // namespace echelon
