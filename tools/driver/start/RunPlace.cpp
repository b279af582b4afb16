// A program trains on the cores of processors. A cluster that is described has devices, so many a node: the machines at
// hand are that cluster where there are as many nodes, and where nothing that is known of a device says that it is no
// part of a processor. Of machines that --hosts names no more is known than how many they are.
#include "tools/driver/start/RunPlace.h"

#include "frontend/resolve/Machines.h"
#include "runtime/launch/MachineMemory.h"
#include "runtime/transport/shared/WaitPolicy.h"

#include <algorithm>
#include <fstream>
#include <set>
#include <sstream>

using namespace echelon::frontend;

namespace echelon {

namespace {

// No core of any processor comes near these.
constexpr double kMostFlopsOfCore = 0.5e12, kMostBytesOfCore = 100e9;

std::string counted(int64_t n, const std::string &what) { return std::to_string(n) + " " + what + (n == 1 ? "" : "s"); }

std::string withUnit(double value, double unit, const char *name) {
  std::ostringstream text;
  text << value / unit << " " << name;
  return text.str();
}

/// Machines of a file as mpirun reads it: the first word of a line.
int64_t machinesIn(const std::string &file) {
  std::set<std::string> names;
  std::ifstream stream(file);
  for (std::string line; std::getline(stream, line);) {
    std::string name;
    if (std::istringstream(line.substr(0, line.find('#'))) >> name)
      names.insert(name);
  }
  return static_cast<int64_t>(names.size());
}

/// Of a device that is no part of a processor, wherever it is; empty: it may be one.
std::string whyNoCore(const Device &device, const Device *catalogued) {
  const std::string name = "a program trains on the cores of processors, and " + device.name.text;
  if (catalogued && catalogued->name.text != kDeviceHere)
    return name + " is a GPU";
  for (const Device::Peak &peak : device.peaks)
    if (peak.precision.text == "tf32" || peak.precision.text == "fp8")
      return name + ", which computes in " + peak.precision.text + ", is none";
  return "";
}

/// Why this machine is not a node of `count` such devices; empty: it may be one.
std::string whyNotNode(const Device &device, int64_t count) {
  const int64_t cores = runtime::coresOfThisProcess(), bytes = runtime::machineBytes();
  const double devices = double(count);
  const std::string node = "a node has " + std::to_string(count) + " x " + device.name.text,
                    here = "; this machine has " + counted(cores, "core");
  if (count > cores)
    return node + here;
  if (device.memory && bytes > 0 && device.memory->value * devices > double(bytes))
    return node + " with " + withUnit(device.memory->value, 1e9, "GB") + " each; this machine has " +
           withUnit(double(bytes / 100'000'000), 10, "GB");
  if (device.bandwidth && device.bandwidth->value * devices > double(cores) * kMostBytesOfCore)
    return node + ", each reading " + withUnit(device.bandwidth->value, 1e9, "GB/s") + here;
  for (const Device::Peak &peak : device.peaks)
    if ((peak.precision.text == "fp32" || peak.precision.text == "fp64") &&
        peak.rate.value * devices > double(cores) * kMostFlopsOfCore)
      return node + ", each computing " + withUnit(peak.rate.value, 1e12, "TFLOP/s") + here;
  return "";
}

/// Why the machines at hand are not the cluster; empty: they may be.
std::string whyNotHere(const Compilation &compilation, const std::string &hosts, bool others) {
  const RunSettings &plan = compilation.settings;
  const Cluster::Nodes &nodes = *plan.cluster->nodes;
  if (plan.device)
    if (std::string why = whyNoCore(*plan.device, catalogued(*compilation.program, *plan.device)); !why.empty())
      return why;
  const int64_t taken = (plan.ranks() + nodes.devices - 1) / nodes.devices;
  if (!hosts.empty()) {
    const int64_t machines = machinesIn(hosts);
    return machines >= taken ? ""
                             : "the layout takes " + counted(taken, "node") + ", and " + quoted(hosts) + " names " +
                                   counted(machines, "machine");
  }
  if (others)
    return "";
  if (nodes.count > 1)
    return "this is one machine; --transport mpi --hosts FILE names others";
  return plan.device ? whyNotNode(*plan.device, nodes.devices) : "";
}

template <typename T> const T *clauseOf(const Train &train) {
  for (const Clause &clause : train.clauses)
    if (const T *found = std::get_if<T>(&clause.what))
      return found;
  return nullptr;
}

/// What to write to train on this machine.
std::string trialHere(const RunSettings &plan) {
  constexpr int64_t kMost = 16;
  const bool hasLayout = clauseOf<LayoutClause>(*plan.train);
  int64_t ranks = plan.ranks();
  if (hasLayout && ranks > kMost)
    return "for a trial here run with --ranks 1, or write on local(ranks = 2) and a mesh of 2 ranks";
  if (!hasLayout) { // the batch is split over all ranks
    const BatchClause *batch = clauseOf<BatchClause>(*plan.train);
    const int64_t samples = batch && batch->micro ? batch->micro->value : 1; // of a rank in one pass
    ranks = std::min<int64_t>(ranks, runtime::coresOfThisProcess());
    while (ranks > 1 && plan.batch % (ranks * samples))
      --ranks;
  }
  return "for a trial here write on local(ranks = " + std::to_string(ranks) + "), or run with --ranks 1";
}

} // namespace

void refuseElsewhere(Compilation &compilation, const std::string &hosts, bool others) {
  const RunSettings &plan = compilation.settings;
  if (!plan.cluster || !plan.cluster->nodes || compilation.options.oneRank)
    return;
  const std::string why = whyNotHere(compilation, hosts, others);
  if (why.empty())
    return;
  const Cluster::Nodes &nodes = *plan.cluster->nodes;
  compilation.diagnostics
      .error(Code::E0315, plan.onRange,
             "cluster " + plan.cluster->name.text + ", " + counted(nodes.count, "node") + " of " +
                 std::to_string(nodes.devices) + " x " + nodes.device.text() + ", is not here: " + why + "; " +
                 trialHere(plan))
      .note(plan.cluster->name.range,
            "cluster " + plan.cluster->name.text + " is declared here; plan, build and verify take it as it is");
}

} // namespace echelon
