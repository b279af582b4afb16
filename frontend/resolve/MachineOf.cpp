#include "frontend/resolve/MachineOf.h"
#include "frontend/Parse.h"
#include "frontend/resolve/Machines.h"
#include "std/Library.h"
#include <map>

namespace echelon::frontend {

namespace {
std::optional<planner::Precision> precisionOf(const std::string &name) {
  static const std::map<std::string, planner::Precision> known = {
      {"fp64", planner::Precision::Fp64}, {"fp32", planner::Precision::Fp32}, {"tf32", planner::Precision::Tf32},
      {"bf16", planner::Precision::Bf16}, {"fp16", planner::Precision::Fp16}, {"fp8", planner::Precision::Fp8}};
  auto it = known.find(name);
  return it == known.end() ? std::nullopt : std::optional(it->second);
}

planner::Device deviceOf(const Device &device) {
  planner::Device made;
  made.name = device.name.text;
  if (device.memory)
    made.memoryBytes = device.memory->value;
  if (device.bandwidth)
    made.bandwidth = device.bandwidth->value;
  for (const Device::Peak &peak : device.peaks)
    if (auto precision = precisionOf(peak.precision.text))
      made.peaks.emplace(*precision, peak.rate.value);
  return made;
}

/// `from`: the file that the channel stands in.
planner::Link linkOf(const Program &program, const File &from, const Channel &channel) {
  planner::Link made;
  if (channel.named) {
    const Link *link = program.findLink(from, *channel.named);
    if (!link)
      return made;
    made = linkOf(program, *program.file(link->name.range.file), link->channel);
    made.name = link->name.text;
    return made;
  }
  made.bandwidth = channel.bandwidth.value * double(channel.lanes);
  made.latency = channel.latency.value;
  made.lanes = channel.lanes;
  return made;
}

template <typename T> const T *named(const std::vector<T> &list, const char *name) {
  for (const T &declaration : list)
    if (declaration.name.text == name)
      return &declaration;
  return nullptr;
}

/// This machine, as the library has it.
planner::Machine localMachine(int64_t ranks) {
  SourceManager sources;
  Diagnostics diagnostics(sources);
  auto program = parseProgram(sources, sources.add("<devices.ech>", libraryText("devices")), diagnostics);
  planner::Machine made;
  made.name = "local";
  made.perNode = ranks;
  made.isTypical = true;
  const File &library = program->main();
  made.device = deviceOf(*named(library.devices, kDeviceHere));
  made.device.memoryBytes = 0; // it is not known what this machine has
  made.link = linkOf(*program, library, named(library.links, kLinkHere)->channel);
  made.link.name = kLinkHere;
  return made;
}
} // namespace

planner::Machine machineOf(const Program &program, const RunSettings &settings) {
  const Cluster *cluster = settings.cluster;
  if (!cluster || !cluster->nodes)
    return localMachine(std::max<int64_t>(settings.clusterRanks, settings.ranks()));
  const File &from = *program.file(cluster->name.range.file);
  planner::Machine made;
  made.name = cluster->name.text;
  made.nodes = cluster->nodes->count;
  made.perNode = cluster->nodes->devices;
  if (settings.device)
    made.device = deviceOf(*settings.device);
  if (cluster->link)
    made.link = linkOf(program, from, *cluster->link);
  if (cluster->network)
    made.network = linkOf(program, from, *cluster->network);
  for (const Tier &tier : cluster->tiers)
    made.tiers.push_back({tier.name.text, tier.count, linkOf(program, from, tier.channel)});
  if (cluster->storage)
    made.storage = cluster->storage->value;
  if (cluster->mtbf)
    made.mtbf = cluster->mtbf->value;
  if (cluster->price)
    made.price = cluster->price->value;
  return made;
}

} // namespace echelon::frontend
