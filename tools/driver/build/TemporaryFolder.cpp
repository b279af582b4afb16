#include "tools/driver/build/TemporaryFolder.h"

#include "tools/driver/build/Paths.h"

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <fcntl.h>
#include <filesystem>
#include <sys/file.h>
#include <unistd.h>
#include <vector>

namespace fs = std::filesystem;

namespace echelon {

namespace {
constexpr const char *kBeginning = "build-";

std::vector<std::string> &own() {
  static std::vector<std::string> folders;
  return folders;
}

void remove(const std::string &folder) {
  std::error_code none;
  fs::remove_all(folder, none);
}

/// A descriptor that has the folder's lock, which ends with the process; -1 where another has it.
int lockOf(const std::string &folder) {
  const int descriptor = open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (descriptor >= 0 && flock(descriptor, LOCK_EX | LOCK_NB) == 0)
    return descriptor;
  if (descriptor >= 0)
    close(descriptor);
  return -1;
}

/// Folders that nobody has any more.
void sweep(const std::string &cache) {
  std::error_code failed;
  for (fs::directory_iterator entry(cache, failed), end; !failed && entry != end; entry.increment(failed)) {
    const std::string path = entry->path().string();
    std::error_code unknown;
    if (entry->path().filename().string().rfind(kBeginning, 0) != 0 || entry->is_symlink(unknown))
      continue;
    if (const int taken = lockOf(path); taken >= 0) {
      remove(path);
      close(taken);
    }
  }
}
} // namespace

TemporaryFolder::TemporaryFolder() {
  const std::string cache = cacheFolder();
  if (cache.empty())
    return;
  sweep(cache);
  // Another process may take a folder for one that nobody has before it is locked.
  for (int attempt = 0; attempt < 10 && lock < 0; ++attempt) {
    std::string pattern = cache + "/" + kBeginning + "XXXXXX";
    if (!mkdtemp(pattern.data()))
      return;
    lock = lockOf(pattern);
    std::error_code none;
    if (lock >= 0 && fs::exists(pattern, none)) {
      folder = pattern;
    } else if (lock >= 0) {
      close(lock);
      lock = -1;
    }
  }
  if (!folder.empty())
    own().push_back(folder);
}

TemporaryFolder::~TemporaryFolder() {
  if (folder.empty())
    return;
  remove(folder);
  giveUp();
}

void TemporaryFolder::rename(const std::string &place) {
  std::error_code taken;
  fs::rename(folder, place, taken);
  if (!taken)
    giveUp();
}

void TemporaryFolder::replace(const std::string &place) {
  if (renameat2(AT_FDCWD, folder.c_str(), AT_FDCWD, place.c_str(), RENAME_EXCHANGE) == 0)
    return;
  remove(place); // a file system that cannot exchange
  rename(place);
}

void TemporaryFolder::giveUp() {
  own().erase(std::find(own().begin(), own().end(), folder));
  folder.clear();
  close(lock);
}

void TemporaryFolder::removeAll() {
  for (const std::string &folder : own())
    remove(folder);
}

} // namespace echelon
