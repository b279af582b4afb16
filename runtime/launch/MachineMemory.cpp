#include "runtime/launch/MachineMemory.h"

#include <algorithm>
#include <fstream>
#include <limits>
#include <sstream>
#include <unistd.h>
#include <vector>

namespace echelon::runtime {

namespace {
constexpr int64_t kMost = std::numeric_limits<int64_t>::max();

struct Group {
  int64_t limit = kMost, left = kMost; // bytes
};

/// The number that a file consists of; `otherwise` when it is missing, or says that there is no limit: version 2 by the
/// word "max", version 1 by a number near 2^63.
int64_t numberIn(const std::string &path, int64_t otherwise) {
  int64_t value = 0;
  return std::ifstream(path) >> value && value < int64_t(1) << 60 ? value : otherwise;
}

/// Of files that are counted as used, and given back when memory is asked for.
int64_t cachedBytes(const std::string &file, const std::string &prefix) {
  int64_t sum = 0, value = 0;
  std::string name;
  for (std::ifstream stat(file); stat >> name >> value;)
    if (name == prefix + "active_file" || name == prefix + "inactive_file")
      sum += value;
  return sum;
}

Group groupIn(const std::string &folder, bool isFirstVersion) {
  Group group;
  const std::string memory = folder + "/memory.";
  group.limit = numberIn(memory + (isFirstVersion ? "limit_in_bytes" : "max"), kMost);
  const int64_t used = numberIn(memory + (isFirstVersion ? "usage_in_bytes" : "current"), 0);
  if (group.limit < kMost)
    group.left =
        std::max<int64_t>(0, group.limit - used) + cachedBytes(memory + "stat", isFirstVersion ? "total_" : "");
  return group;
}

/// The least of all groups that this process is in. In a container the path may be one that is seen outside alone, and
/// the container's group lies at the top.
Group leastGroup(const std::string &root) {
  Group least;
  std::ifstream groups(root + "/proc/self/cgroup");
  for (std::string line; std::getline(groups, line);) { // ID:CONTROLLERS:/PATH
    std::istringstream fields(line);
    std::string id, controllers, path;
    std::getline(fields, id, ':');
    std::getline(fields, controllers, ':');
    std::getline(fields, path);
    const bool isFirstVersion = !controllers.empty();
    if (path.empty() || path[0] != '/' ||
        (isFirstVersion && ("," + controllers + ",").find(",memory,") == std::string::npos))
      continue;
    const std::string top = root + "/sys/fs/cgroup" + (isFirstVersion ? "/memory" : "");
    for (;; path.erase(path.rfind('/'))) {
      const Group group = groupIn(top + path, isFirstVersion);
      least.limit = std::min(least.limit, group.limit);
      least.left = std::min(least.left, group.left);
      if (path.empty())
        break;
    }
  }
  return least;
}
} // namespace

int64_t machineBytes(const std::string &root) {
  const int64_t pages = sysconf(_SC_PHYS_PAGES), page = sysconf(_SC_PAGESIZE), limit = leastGroup(root).limit;
  const int64_t bytes = pages > 0 && page > 0 ? pages * page : kMost;
  const int64_t least = std::min(bytes, limit);
  return least == kMost ? 0 : least;
}

int64_t freeBytes(const std::string &root) {
  int64_t free = kMost, kib = 0;
  std::string name;
  for (std::ifstream machine(root + "/proc/meminfo"); machine >> name >> kib; machine.ignore(80, '\n'))
    if (name == "MemAvailable:")
      free = kib << 10;
  return std::min(free, leastGroup(root).left);
}

} // namespace echelon::runtime
