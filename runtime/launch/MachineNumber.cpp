#include "runtime/launch/MachineNumber.h"

#include <fstream>
#include <functional>
#include <string>
#include <unistd.h>

namespace echelon::runtime {

uint64_t machineNumber() {
  std::string boot;
  std::ifstream("/proc/sys/kernel/random/boot_id") >> boot;
  char name[256] = {};
  if (boot.empty() && gethostname(name, sizeof name - 1) == 0)
    boot = name;
  return std::hash<std::string>()(boot);
}

} // namespace echelon::runtime
