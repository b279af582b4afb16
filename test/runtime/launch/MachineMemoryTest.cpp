// What control groups leave of a machine's memory, from folders that look like /proc and /sys/fs/cgroup.
#include "runtime/launch/MachineMemory.h"

#include <filesystem>
#include <fstream>
#include <gtest/gtest.h>
#include <stdlib.h>

using namespace echelon::runtime;

namespace {
constexpr int64_t kMegabyte = 1 << 20;

class MachineMemory : public testing::Test {
protected:
  MachineMemory() { root = mkdtemp(root.data()); }
  ~MachineMemory() override { std::filesystem::remove_all(root); }

  void write(const std::string &path, const std::string &text) const {
    std::filesystem::create_directories(std::filesystem::path(root + path).parent_path());
    std::ofstream(root + path) << text;
  }

  std::string root = (std::filesystem::temp_directory_path() / "machine-memory-XXXXXX").string();
};

TEST_F(MachineMemory, WithoutGroupsItIsTheMachines) {
  EXPECT_GT(machineBytes(root), kMegabyte);
  EXPECT_EQ(freeBytes(root), INT64_MAX);
  write("/proc/meminfo", "MemTotal:       24000 kB\nMemFree:  9 kB\nMemAvailable:    2048 kB\n");
  EXPECT_EQ(freeBytes(root), 2 * kMegabyte);
  EXPECT_GT(freeBytes(), kMegabyte); // of the machine that this runs on
}

// The batch system's limit is that of a group above the job's step.
TEST_F(MachineMemory, TheLeastOfAGroupAndThoseAboveIt) {
  write("/proc/self/cgroup", "0::/slurm/job_7/step_0\n");
  write("/sys/fs/cgroup/slurm/job_7/memory.max", "4194304\n");
  write("/sys/fs/cgroup/slurm/job_7/memory.current", "3145728\n");
  write("/sys/fs/cgroup/slurm/job_7/memory.stat", "anon 5\nactive_file 100\ninactive_file 20\n");
  write("/sys/fs/cgroup/slurm/job_7/step_0/memory.max", "max\n");
  EXPECT_EQ(machineBytes(root), 4 * kMegabyte);
  EXPECT_EQ(freeBytes(root), kMegabyte + 120);
}

// Only the container's own group is seen in it, at the top.
TEST_F(MachineMemory, AContainersGroup) {
  write("/proc/self/cgroup", "0::/docker/0123\n");
  write("/sys/fs/cgroup/memory.max", "1048576\n");
  write("/sys/fs/cgroup/memory.current", "2097152\n");
  EXPECT_EQ(machineBytes(root), kMegabyte);
  EXPECT_EQ(freeBytes(root), 0);
}

TEST_F(MachineMemory, VersionOne) {
  write("/proc/self/cgroup", "3:cpu,cpuacct:/a\n2:memory:/a\n1:name=systemd:/memory\n");
  write("/sys/fs/cgroup/memory/memory.limit_in_bytes", "9223372036854771712\n");
  write("/sys/fs/cgroup/memory/a/memory.limit_in_bytes", "2097152\n");
  write("/sys/fs/cgroup/memory/a/memory.usage_in_bytes", "1048576\n");
  write("/sys/fs/cgroup/memory/a/memory.stat", "active_file 7\ntotal_active_file 40\ntotal_inactive_file 2\n");
  EXPECT_EQ(machineBytes(root), 2 * kMegabyte);
  EXPECT_EQ(freeBytes(root), kMegabyte + 42);
}
} // namespace
