#include "runtime/cuda/NcclSettings.h"

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <fstream>

namespace echelon::cuda {

namespace {

namespace fs = std::filesystem;

std::string lineOf(const fs::path &file) {
  std::string line;
  std::getline(std::ifstream(file), line);
  return line;
}

std::vector<fs::path> entriesOf(const fs::path &folder) {
  std::vector<fs::path> entries;
  std::error_code none;
  for (const fs::directory_entry &entry : fs::directory_iterator(folder, none))
    entries.push_back(entry.path());
  std::sort(entries.begin(), entries.end());
  return entries;
}

struct Port {
  std::string name; // "mlx5_0:1"
  fs::path device;
  bool isActive, isInfiniBand;
};

std::vector<Port> portsOf(const std::string &root) {
  std::vector<Port> ports;
  for (const fs::path &card : entriesOf(root + "/sys/class/infiniband"))
    for (const fs::path &port : entriesOf(card / "ports"))
      ports.push_back({card.filename().string() + ":" + port.filename().string(), card / "device",
                       lineOf(port / "state").find("ACTIVE") != std::string::npos, // "4: ACTIVE"
                       lineOf(port / "link_layer") == "InfiniBand"});
  return ports;
}

/// The root port that a device hangs below, "pci0000:16/0000:16:01.0": two below one are behind a switch.
std::string rootPortOf(const fs::path &device) {
  std::error_code none;
  const fs::path whole = fs::canonical(device, none);
  auto part = whole.begin();
  while (part != whole.end() && part->string().rfind("pci", 0) != 0)
    ++part;
  if (part == whole.end())
    return "";
  const std::string bridge = part->string();
  return ++part == whole.end() ? bridge : bridge + "/" + part->string();
}

std::vector<fs::path> gpusOf(const std::string &root) {
  std::vector<fs::path> gpus;
  for (const fs::path &device : entriesOf(root + "/sys/bus/pci/devices"))
    if (lineOf(device / "vendor") == "0x10de" && lineOf(device / "class").rfind("0x03", 0) == 0)
      gpus.push_back(device);
  return gpus;
}

/// Whether cards and GPUs are near each other, and only over the processor.
bool isNearOverProcessor(const std::vector<Port> &active, const std::string &root) {
  bool isNear = false;
  for (const fs::path &gpu : gpusOf(root))
    for (const Port &port : active) {
      const std::string of = rootPortOf(gpu), other = rootPortOf(port.device);
      if (of.empty() || other.empty() || of == other)
        return false;
      const std::string node = lineOf(gpu / "numa_node");
      isNear = isNear || (!node.empty() && node != "-1" && node == lineOf(port.device / "numa_node"));
    }
  return isNear;
}

} // namespace

std::vector<NcclSetting> ncclSettings(const std::string &interface, const std::function<bool(const char *)> &isSet,
                                      const std::string &root) {
  std::vector<NcclSetting> settings;
  const auto set = [&](const char *variable, const std::string &value, const std::string &reason) {
    if (!isSet(variable))
      settings.push_back({variable, value, reason});
  };
  if (interface.empty())
    return settings;
  set("NCCL_SOCKET_IFNAME", "=" + interface, "the ranks have met over it");
  const std::vector<Port> all = portsOf(root);
  std::vector<Port> active;
  std::copy_if(all.begin(), all.end(), std::back_inserter(active), [](const Port &port) { return port.isActive; });
  if (active.empty()) {
    set("NCCL_IB_DISABLE", "1",
        all.empty() ? "no InfiniBand or RoCE card in /sys/class/infiniband"
                    : "no port of the cards in /sys/class/infiniband is active");
    return settings;
  }
  if (std::any_of(active.begin(), active.end(), [](const Port &port) { return port.isInfiniBand; }))
    active.erase(std::remove_if(active.begin(), active.end(), [](const Port &port) { return !port.isInfiniBand; }),
                 active.end());
  if (active.size() < all.size()) {
    std::string names;
    for (const Port &port : active)
      names += (names.empty() ? "=" : ",") + port.name;
    set("NCCL_IB_HCA", names,
        std::string("the active ports of ") + (active[0].isInfiniBand ? "InfiniBand" : "RoCE") + ", " +
            std::to_string(active.size()) + " of " + std::to_string(all.size()) + " in /sys/class/infiniband");
  }
  std::error_code none;
  if (fs::exists(root + "/sys/module/nvidia_peermem", none) && isNearOverProcessor(active, root))
    set("NCCL_NET_GDR_LEVEL", "PHB",
        "nvidia_peermem is loaded, and GPU and card are on one NUMA node without a PCIe switch");
  return settings;
}

std::vector<std::string> setForNccl(const std::vector<NcclSetting> &settings) {
  std::vector<std::string> lines;
  for (const NcclSetting &each : settings) {
    setenv(each.variable.c_str(), each.value.c_str(), 0);
    lines.push_back(each.variable + "=" + each.value + ": " + each.reason);
  }
  return lines;
}

} // namespace echelon::cuda
