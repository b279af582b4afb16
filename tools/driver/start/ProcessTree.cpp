#include "tools/driver/start/ProcessTree.h"

#include "llvm/ADT/STLExtras.h"
#include "llvm/Support/FileSystem.h"

#include <csignal>
#include <filesystem>
#include <fstream>
#include <sstream>

namespace echelon {

std::vector<std::string> pathsIn(const std::string &folder) {
  std::vector<std::string> paths;
  std::error_code error;
  for (llvm::sys::fs::directory_iterator it(folder, error, false), end; !error && it != end; it.increment(error))
    paths.push_back(it->path());
  return paths;
}

static std::vector<std::string> threadsOf(pid_t process) {
  return pathsIn("/proc/" + std::to_string(process) + "/task");
}

std::vector<pid_t> childrenOf(pid_t process) {
  std::vector<pid_t> found;
  for (const std::string &thread : threadsOf(process)) {
    std::ifstream children(thread + "/children");
    for (pid_t child; children >> child;)
      found.push_back(child);
  }
  return found;
}

uint64_t beginOf(pid_t process) {
  std::ifstream file("/proc/" + std::to_string(process) + "/stat");
  std::string text, field;
  std::getline(file, text);
  const size_t name = text.rfind(") "); // it may have blanks
  if (name == std::string::npos || text[name + 2] == 'Z' || text[name + 2] == 'X')
    return 0;
  std::istringstream fields(text.substr(name + 2));
  for (int number = 3; number < 22; ++number) // proc(5) counts them so: 3 is the state, 22 the beginning
    fields >> field;
  uint64_t begin = 0;
  fields >> begin;
  return begin;
}

std::string programOf(pid_t process) {
  std::error_code unknown;
  return std::filesystem::read_symlink("/proc/" + std::to_string(process) + "/exe", unknown).string();
}

bool hasLivingChildren(pid_t process) {
  return threadsOf(process).empty() || llvm::any_of(childrenOf(process), beginOf);
}

void killTree(pid_t process) {
  kill(process, SIGSTOP); // it starts nothing more
  for (pid_t child : childrenOf(process))
    killTree(child);
  kill(process, SIGKILL);
}

} // namespace echelon
