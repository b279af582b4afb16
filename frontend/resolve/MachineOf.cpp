#include "frontend/resolve/MachineOf.h"
#include "frontend/Parse.h"
#include "frontend/resolve/Machines.h"
#include "std/Library.h"
#include <algorithm>
#include <map>
#include <sstream>

namespace echelon::frontend {

namespace {
std::optional<planner::Precision> precisionOf(const std::string &name) {
  static const std::map<std::string, planner::Precision> known = {
      {"fp64", planner::Precision::Fp64}, {"fp32", planner::Precision::Fp32}, {"tf32", planner::Precision::Tf32},
      {"bf16", planner::Precision::Bf16}, {"fp16", planner::Precision::Fp16}, {"fp8", planner::Precision::Fp8}};
  auto it = known.find(name);
  return it == known.end() ? std::nullopt : std::optional(it->second);
}

planner::Curve curveOf(const Curve &curve) {
  planner::Curve made;
  for (const Curve::Point &point : curve.points)
    made.points.push_back({point.size.value, point.value.value});
  return made;
}

/// Of a name's curves, each measured with so many ranks at once, or with nobody says how many, that of the most ranks
/// up to `ranks`, else of the fewest.
bool isNearer(const Curve &curve, const Curve &than, int64_t ranks) {
  const bool fits = curve.ranks <= ranks, fitted = than.ranks <= ranks;
  if (fits != fitted)
    return fits;
  return fits ? curve.ranks > than.ranks : curve.ranks < than.ranks;
}

/// `ranks`: of a node, that compute at once.
planner::Device deviceOf(const Device &device, int64_t ranks) {
  planner::Device made;
  made.name = device.name.text;
  if (device.memory)
    made.memoryBytes = device.memory->value;
  if (device.bandwidth)
    made.bandwidth = device.bandwidth->value;
  for (const Device::Peak &peak : device.peaks)
    if (auto precision = precisionOf(peak.precision.text))
      made.peaks.emplace(*precision, peak.rate.value);
  for (const Setting &setting : device.efficiency)
    made.efficiency.emplace(setting.name.text + (setting.precision ? "." + setting.precision->text : ""),
                            setting.value.value);
  for (const Setting &setting : device.passes)
    made.passes.emplace(setting.name.text, setting.value.value);
  for (const Setting &setting : device.response)
    made.costs.emplace(setting.name.text, setting.value.value);
  for (const Curve &curve : device.curves) {
    if (std::any_of(device.curves.begin(), device.curves.end(), [&](const Curve &other) {
          return other.name.text == curve.name.text && isNearer(other, curve, ranks);
        }))
      continue;
    if (const auto sizes = gridSizes(curve.name.text))
      made.grid.emplace(*sizes, curveOf(curve));
    else
      made.curves.emplace(curve.name.text, curveOf(curve));
  }
  return made;
}

planner::Protocol protocolOf(const Protocol &protocol) {
  planner::Protocol made;
  made.name = protocol.name.text;
  const std::map<std::string, double *> places = {{"start", &made.start},     {"rank", &made.rank},
                                                  {"rate", &made.rate},       {"few", &made.few},
                                                  {"network", &made.network}, {"limit", &made.limit}};
  for (const Setting &setting : protocol.settings)
    if (setting.name.text == "channels")
      made.channels = int64_t(setting.value.value);
    else if (auto it = places.find(setting.name.text); it != places.end())
      *it->second = setting.value.value;
    else
      made.sumsInSwitch |= setting.name.text == "in_switch" && setting.value.value > 0;
  return made;
}

planner::Link speedOf(const Channel &channel) {
  planner::Link made;
  made.bandwidth = channel.bandwidth.value * double(channel.lanes);
  made.latency = channel.latency.value;
  made.lanes = channel.lanes;
  return made;
}

planner::Link linkOf(const Link &link) {
  planner::Link made = link.speed ? speedOf(*link.speed) : planner::Link();
  made.name = link.name.text;
  for (const Setting &setting : link.response)
    made.costs.emplace(setting.name.text, setting.value.value);
  for (const Protocol &protocol : link.protocols)
    made.protocols.push_back(protocolOf(protocol));
  for (const Curve &curve : link.curves)
    made.curves.emplace(std::pair(curve.name.text, curve.ranks), curveOf(curve));
  return made;
}

/// What the figures of a machine were measured on.
void addMeasured(planner::Machine &machine, const std::optional<Measurement> &measured) {
  if (!measured)
    return;
  machine.measured.push_back(measured->date + " on " + escaped(measured->place));
  for (const Setting &setting : measured->settings)
    if (setting.name.text == "spread")
      machine.spread = std::max(machine.spread, setting.value.value);
}

/// `from`: the file that the channel stands in.
planner::Link linkOf(planner::Machine &machine, const Program &program, const File &from, const Channel &channel) {
  if (!channel.named)
    return speedOf(channel);
  const Link *link = program.findLink(from, *channel.named);
  if (!link)
    return {};
  addMeasured(machine, link->measured);
  return linkOf(wholeLink(program, *link));
}

template <typename T> const T *named(const std::vector<T> &list, const char *name) {
  for (const T &declaration : list)
    if (declaration.name.text == name)
      return &declaration;
  return nullptr;
}

/// This machine, as the library has it.
planner::Machine typicalMachine(int64_t ranks) {
  SourceManager sources;
  Diagnostics diagnostics(sources);
  auto program = parseProgram(sources, sources.add("<devices.ech>", libraryText("devices")), diagnostics);
  planner::Machine made;
  made.name = "local";
  made.perNode = ranks;
  made.isTypical = true;
  const File &library = program->main();
  made.device = deviceOf(*named(library.devices, kDeviceHere), ranks);
  made.device.memoryBytes = 0; // it is not known what this machine has
  made.link = linkOf(*named(library.links, kLinkHere));
  return made;
}

/// This machine, as it was measured, with so many ranks of a cluster of `places`. More than it has devices take turns.
planner::Machine measuredMachine(const Program &here, int64_t ranks, int64_t places) {
  const File &file = here.main();
  const Cluster &cluster = *named(file.clusters, kClusterHere);
  const Device &device = *here.findDevice(file, cluster.nodes->device);
  planner::Machine made;
  made.name = "local";
  made.perNode = places;
  made.crowd = std::max(1.0, double(ranks) / double(cluster.nodes->devices));
  made.device = deviceOf(wholeDevice(here, device), std::min(ranks, cluster.nodes->devices));
  made.device.memoryBytes = 0; // ranks share it, each as much as it takes
  addMeasured(made, device.measured);
  if (cluster.link)
    made.link = linkOf(made, here, file, *cluster.link);
  return made;
}
} // namespace

std::unique_ptr<Program> readMachine(const std::string &file, std::string &why) {
  SourceManager sources;
  Diagnostics diagnostics(sources);
  const FileId id = sources.read(file, why);
  if (id < 0)
    return nullptr;
  auto program = parseProgram(sources, id, diagnostics);
  if (!diagnostics.hasErrors())
    checkMachines(*program, diagnostics);
  if (diagnostics.hasErrors()) {
    std::ostringstream text;
    diagnostics.print(text, false);
    why = text.str();
    return nullptr;
  }
  const Cluster *cluster = named(program->main().clusters, kClusterHere);
  if (!cluster || !cluster->nodes || cluster->nodes->count != 1 ||
      !program->findDevice(program->main(), cluster->nodes->device)) {
    why = "it has no cluster " + std::string(kClusterHere) + " of one node; echelon calibrate writes one";
    return nullptr;
  }
  return program;
}

planner::Machine machineOf(const Program &program, const RunSettings &settings, const Program *here) {
  const Cluster *cluster = settings.cluster;
  if (!cluster || !cluster->nodes) {
    const int64_t ranks = std::max<int64_t>(settings.ranks(), 1), places = std::max(settings.clusterRanks, ranks);
    return here ? measuredMachine(*here, ranks, places) : typicalMachine(places);
  }
  const File &from = *program.file(cluster->name.range.file);
  planner::Machine made;
  made.name = cluster->name.text;
  made.nodes = cluster->nodes->count;
  made.perNode = cluster->nodes->devices;
  if (settings.device) {
    made.device = deviceOf(wholeDevice(program, *settings.device), made.perNode);
    addMeasured(made, settings.device->measured);
  }
  if (cluster->network)
    made.network = linkOf(made, program, from, *cluster->network);
  if (cluster->link)
    made.link = linkOf(made, program, from, *cluster->link);
  else if (made.network) // messages within a node take the way that there is
    made.link = *made.network;
  for (const Tier &tier : cluster->tiers)
    made.tiers.push_back({tier.name.text, tier.count, linkOf(made, program, from, tier.channel)});
  if (cluster->storage)
    made.storage = cluster->storage->value;
  if (cluster->mtbf)
    made.mtbf = cluster->mtbf->value;
  if (cluster->price)
    made.price = cluster->price->value;
  return made;
}

} // namespace echelon::frontend
