// From the cluster that a train block runs on to the machine that the cost model asks.
#pragma once
#include "frontend/resolve/RunSettings.h"
#include "planner/machine/Machine.h"

namespace echelon::frontend {

/// Everything that the spec says of the cluster, its devices and links, and what is typical where it says nothing. For
/// this machine (`local(ranks = n)`, or no cluster) as many cores as the run has ranks, by std/devices.ech.
planner::Machine machineOf(const Program &program, const RunSettings &settings);

} // namespace echelon::frontend
