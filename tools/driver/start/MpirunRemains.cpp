#include "tools/driver/start/MpirunRemains.h"

#include "tools/driver/start/ProcessTree.h"

#include "llvm/ADT/StringRef.h"

#include <fstream>
#include <set>
#include <string>
#include <unistd.h>

namespace fs = std::filesystem;

namespace echelon {

/// This machine's name, in full and without its domain: Open MPI takes one of them.
static std::set<std::string> hostNames() {
  char host[256] = "";
  gethostname(host, sizeof host - 1);
  const std::string name(host);
  return {name, name.substr(0, name.find('.'))};
}

static void removeSessionOf(pid_t mpirun) {
  std::error_code none;
  for (const std::string &host : hostNames()) {
    const fs::path all = fs::temp_directory_path(none) / ("ompi." + host + "." + std::to_string(geteuid()));
    fs::remove_all(all / ("pid." + std::to_string(mpirun)), none);
    fs::remove(all, none); // unless others use it
  }
}

/// Ranks find each other's memory by names in /dev/shm, and remove them once all have met. Those of ranks that ended
/// before that stay.
static void removeSegments(fs::file_time_type since) {
  std::error_code none;
  std::set<std::string> left;
  const std::set<std::string> hosts = hostNames();
  for (const std::string &path : pathsIn("/dev/shm")) {
    bool isOfRanks = llvm::StringRef(path).starts_with("/dev/shm/open_mpi."); // each tries at its start whether it can
    for (const std::string &host : hosts)
      isOfRanks |=
          llvm::StringRef(path).starts_with("/dev/shm/vader_segment." + host + "." + std::to_string(geteuid()) + ".");
    if (isOfRanks && fs::last_write_time(path, none) >= since)
      left.insert(path);
  }
  if (left.empty())
    return;
  for (const std::string &process : pathsIn("/proc")) {
    for (const std::string &open : pathsIn(process + "/fd")) // who makes one has it open first, then mapped
      left.erase(fs::read_symlink(open, none));
    std::ifstream maps(process + "/maps");
    for (std::string line; std::getline(maps, line);)
      if (const size_t at = line.find("/dev/shm/"); at != std::string::npos)
        left.erase(line.substr(at));
  }
  for (const std::string &path : left)
    unlink(path.c_str());
}

void removeFilesOf(pid_t mpirun, fs::file_time_type since) {
  removeSessionOf(mpirun);
  removeSegments(since);
}

} // namespace echelon
