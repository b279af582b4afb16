// Processes of this machine, as /proc tells of them.
#pragma once
#include <cstdint>
#include <string>
#include <sys/types.h>
#include <vector>

namespace echelon {

/// The paths of what is in a folder; what vanishes meanwhile may be missing.
std::vector<std::string> pathsIn(const std::string &folder);

/// Children of all its threads.
std::vector<pid_t> childrenOf(pid_t process);

/// When a process began, in clock ticks since the machine did, which tells it from another of its number. 0: it has
/// ended, or there is no /proc.
uint64_t beginOf(pid_t process);

/// The file that it runs; empty where it has ended or that may not be known.
std::string programOf(pid_t process);

/// Whether a living process has children that have not ended; yes, too, where nobody knows.
bool hasLivingChildren(pid_t process);

/// Ends a process and all that it has started.
void killTree(pid_t process);

} // namespace echelon
