#include "runtime/snapshot/DirectoryClaim.h"

#include <cerrno>
#include <chrono>
#include <cstring>
#include <fcntl.h>
#include <filesystem>
#include <sys/file.h>
#include <thread>
#include <unistd.h>
#include <vector>

namespace echelon::runtime {

namespace fs = std::filesystem;

static constexpr const char *kUnfinished = ".writing";

std::string unfinishedName(const std::string &name) { return "." + name + kUnfinished; }

void DirectoryClaim::removeUnfinished() {
  std::vector<fs::path> found;
  std::error_code failed;
  for (fs::directory_iterator it(held, failed), end; !failed && it != end; it.increment(failed)) {
    const std::string name = it->path().filename().string();
    if (name.compare(0, 6, ".step-") == 0 && name.find(kUnfinished) != std::string::npos)
      found.push_back(it->path());
  }
  for (const fs::path &path : found)
    fs::remove_all(path, failed);
}

DirectoryClaim::~DirectoryClaim() {
  if (descriptor >= 0)
    close(descriptor);
}

std::string DirectoryClaim::take(const std::string &directory) {
  std::error_code failed;
  fs::create_directories(directory, failed);
  if (failed)
    return "cannot write \"" + directory + "\": " + failed.message();
  if (access(directory.c_str(), W_OK | X_OK) != 0)
    return "cannot write \"" + directory + "\": " + std::strerror(errno);
  descriptor = open(directory.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (descriptor < 0)
    return "cannot read \"" + directory + "\": " + std::strerror(errno);
  for (int tries = 0; flock(descriptor, LOCK_EX | LOCK_NB) != 0; ++tries) {
    if (errno != EWOULDBLOCK) // no locks here
      return "";
    if (tries == 10)
      return "another run is writing its snapshots to \"" + directory +
             "\": stop it, or name another directory (--out DIR)";
    std::this_thread::sleep_for(std::chrono::milliseconds(50));
  }
  held = directory;
  removeUnfinished();
  return "";
}

} // namespace echelon::runtime
