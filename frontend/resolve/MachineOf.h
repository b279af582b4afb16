// From the cluster that a train block runs on to the machine that the cost model asks.
#pragma once
#include "frontend/resolve/RunSettings.h"
#include "planner/machine/Machine.h"
#include <memory>

namespace echelon::frontend {

/// Everything that the spec says of the cluster, its devices and links, and what is typical where it says nothing. For
/// this machine (`local(ranks = n)`, or no cluster) as many cores as the run has ranks, by std/devices.ech.
/// Where `here` is given, this machine is that: as it was measured.
planner::Machine machineOf(const Program &program, const RunSettings &settings, const Program *here = nullptr);

/// What `echelon calibrate` names the cluster that it writes.
inline constexpr const char *kClusterHere = "here";

/// The machine file, checked: a program that has the cluster `here` of one node. Null: `why` says what is wrong with
/// it.
std::unique_ptr<Program> readMachine(const std::string &file, std::string &why);

} // namespace echelon::frontend
