// What NCCL is told, from folders that look like /sys.
#include "runtime/cuda/NcclSettings.h"

#include <filesystem>
#include <fstream>
#include <gtest/gtest.h>
#include <set>
#include <stdlib.h>

namespace echelon::cuda {
namespace {

namespace fs = std::filesystem;

class NcclSettings : public testing::Test {
protected:
  NcclSettings() { root = mkdtemp(root.data()); }
  ~NcclSettings() override { fs::remove_all(root); }

  void write(const fs::path &path, const std::string &text) const {
    fs::create_directories(path.parent_path());
    std::ofstream(path) << text << "\n";
  }
  /// A device below /sys/devices; returns where.
  fs::path device(const std::string &place, const std::string &node) const {
    const fs::path at = root + "/sys/devices/" + place;
    write(at / "numa_node", node);
    return at;
  }
  void card(const std::string &name, const fs::path &device, const std::string &state, const std::string &link) const {
    const fs::path at = root + "/sys/class/infiniband/" + name;
    write(at / "ports/1/state", state);
    write(at / "ports/1/link_layer", link);
    fs::create_symlink(device, at / "device");
  }
  void gpu(const std::string &place, const std::string &node) const {
    const fs::path at = device(place, node);
    write(at / "vendor", "0x10de");
    write(at / "class", "0x030200");
    fs::create_directories(root + "/sys/bus/pci/devices");
    fs::create_symlink(at, root + "/sys/bus/pci/devices/" + at.filename().string());
  }
  std::string told(const std::string &interface = "eth0", const std::set<std::string> &user = {}) const {
    std::string text;
    for (const NcclSetting &each :
         ncclSettings(interface, [&](const char *name) { return user.count(name) > 0; }, root))
      text += each.variable + "=" + each.value + ": " + each.reason + "\n";
    return text;
  }

  std::string root = (fs::temp_directory_path() / "nccl-settings-XXXXXX").string();
};

const std::string kInterface = "NCCL_SOCKET_IFNAME==eth0: the ranks have met over it\n";

TEST_F(NcclSettings, OneMachineNeedsNone) { EXPECT_EQ(told(""), ""); }

TEST_F(NcclSettings, WithoutACard) {
  EXPECT_EQ(told(), kInterface + "NCCL_IB_DISABLE=1: no InfiniBand or RoCE card in /sys/class/infiniband\n");
  EXPECT_EQ(told("eth0", {"NCCL_IB_DISABLE", "NCCL_SOCKET_IFNAME"}), "");
  card("mlx5_0", device("pci0000:16/0000:16:01.0/0000:17:00.0", "0"), "1: DOWN", "InfiniBand");
  EXPECT_EQ(told(), kInterface + "NCCL_IB_DISABLE=1: no port of the cards in /sys/class/infiniband is active\n");
}

// Where all ports are alike NCCL takes them by itself; else those that reach each other.
TEST_F(NcclSettings, ActivePorts) {
  card("mlx5_0", device("pci0000:16/0000:16:01.0/0000:17:00.0", "0"), "4: ACTIVE", "InfiniBand");
  card("mlx5_1", device("pci0000:16/0000:16:02.0/0000:18:00.0", "0"), "4: ACTIVE", "InfiniBand");
  EXPECT_EQ(told(), kInterface);
  card("mlx5_2", device("pci0000:26/0000:26:01.0/0000:27:00.0", "0"), "4: ACTIVE", "Ethernet");
  card("mlx5_3", device("pci0000:36/0000:36:01.0/0000:37:00.0", "0"), "1: DOWN", "InfiniBand");
  EXPECT_EQ(told(), kInterface + "NCCL_IB_HCA==mlx5_0:1,mlx5_1:1: the active ports of InfiniBand, 2 of 4 in "
                                 "/sys/class/infiniband\n");
  EXPECT_EQ(told("eth0", {"NCCL_IB_HCA"}), kInterface);
}

// A card reads a GPU's memory over the processor only where NCCL would not do so anyway.
TEST_F(NcclSettings, MemoryOfGpusOverTheProcessor) {
  const std::string level = "NCCL_NET_GDR_LEVEL=PHB: nvidia_peermem is loaded, and GPU and card are on one NUMA node "
                            "without a PCIe switch\n";
  card("mlx5_0", device("pci0000:16/0000:16:01.0/0000:17:00.0", "0"), "4: ACTIVE", "Ethernet");
  gpu("pci0000:46/0000:46:01.0/0000:47:00.0", "1");
  fs::create_directories(root + "/sys/module/nvidia_peermem");
  EXPECT_EQ(told(), kInterface); // on another processor
  gpu("pci0000:26/0000:26:01.0/0000:27:00.0", "0");
  EXPECT_EQ(told(), kInterface + level);
  EXPECT_EQ(told("eth0", {"NCCL_NET_GDR_LEVEL"}), kInterface);
  fs::remove(root + "/sys/module/nvidia_peermem");
  EXPECT_EQ(told(), kInterface);
  fs::create_directories(root + "/sys/module/nvidia_peermem");
  gpu("pci0000:16/0000:16:01.0/0000:19:00.0", "0"); // behind the card's switch
  EXPECT_EQ(told(), kInterface);
}

TEST_F(NcclSettings, LinesOfWhatWasSet) {
  unsetenv("NCCL_IB_DISABLE");
  EXPECT_EQ(setForNccl({{"NCCL_IB_DISABLE", "1", "no card"}}), std::vector<std::string>{"NCCL_IB_DISABLE=1: no card"});
  EXPECT_STREQ(getenv("NCCL_IB_DISABLE"), "1");
  unsetenv("NCCL_IB_DISABLE");
}

} // namespace
} // namespace echelon::cuda
