#include "tools/driver/build/Paths.h"

#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/Support/BLAKE3.h"

#include <cerrno>
#include <cstdlib>
#include <filesystem>
#include <sys/stat.h>
#include <unistd.h>

namespace echelon {

std::string includeFolder() { return ECHELON_INCLUDE_FOLDER; }
std::string runtimeLibrary() { return ECHELON_RUNTIME_LIBRARY; }

std::string fileStamp(const std::string &file) {
  struct stat info = {};
  if (stat(file.c_str(), &info) != 0)
    return file + ";";
  return file + " " + std::to_string(info.st_size) + ":" + std::to_string(info.st_mtim.tv_sec) + "." +
         std::to_string(info.st_mtim.tv_nsec) + ";";
}

std::string runtimeStamp() {
  namespace fs = std::filesystem;
  std::vector<std::string> headers;
  std::error_code none;
  for (fs::recursive_directory_iterator file(includeFolder() + "/runtime", none), end; file != end;
       file.increment(none))
    if (file->path().extension() == ".h")
      headers.push_back(file->path().string());
  llvm::sort(headers);
  std::string stamp = fileStamp(runtimeLibrary());
  for (const std::string &header : headers)
    stamp += fileStamp(header);
  return stamp;
}

std::string cacheFolder() {
  auto variable = [](const char *name) {
    const char *value = std::getenv(name);
    return std::string(value ? value : "");
  };
  std::string folder = variable("ECHELON_CACHE");
  if (folder.empty() && !variable("XDG_CACHE_HOME").empty())
    folder = variable("XDG_CACHE_HOME") + "/echelon";
  if (folder.empty() && !variable("HOME").empty())
    folder = variable("HOME") + "/.cache/echelon";
  if (folder.empty()) {
    folder = "/tmp/echelon-cache-" + std::to_string(geteuid());
    // Anybody may have made a folder of this name: what lies in one that is not this user's alone is never started.
    struct stat info = {};
    if ((mkdir(folder.c_str(), 0700) != 0 && errno != EEXIST) || lstat(folder.c_str(), &info) != 0 ||
        !S_ISDIR(info.st_mode) || info.st_uid != geteuid() || (info.st_mode & 022) != 0)
      return "";
  }
  std::error_code error;
  std::filesystem::create_directories(folder, error);
  return error ? "" : std::filesystem::absolute(folder).string();
}

std::string hashOf(const std::vector<std::string> &parts) {
  llvm::BLAKE3 hasher;
  for (const std::string &part : parts) {
    hasher.update(std::to_string(part.size()) + ":");
    hasher.update(part);
  }
  return llvm::toHex(hasher.final<16>(), /*LowerCase=*/true);
}

std::string stemOf(const std::string &path) {
  std::string stem = std::filesystem::path(path).stem().string();
  for (char &c : stem)
    if (!llvm::isAlnum(c) && c != '_' && c != '-')
      c = '_';
  return stem.empty() ? "program" : stem;
}

} // namespace echelon
