// Memory that this process may have: the machine's, or less where it is in control groups with a limit (containers,
// batch systems).
#pragma once

#include <cstdint>
#include <string>

namespace echelon::runtime {

// `root`: the folder that has /proc and /sys/fs/cgroup; tests give one of their own.

/// Bytes of the machine, or the least limit of the control groups that this process is in, its own and those above it
/// (cgroups(7), both versions); 0: unknown.
int64_t machineBytes(const std::string &root = "");

/// What of that is free, in bytes; INT64_MAX: unknown.
int64_t freeBytes(const std::string &root = "");

} // namespace echelon::runtime
