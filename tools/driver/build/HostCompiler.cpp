// The host compiler: from generated C++ to an executable.
#include "tools/driver/build/HostCompiler.h"

#include "tools/driver/build/Paths.h"
#include "tools/driver/build/TemporaryFolder.h"
#include "tools/driver/start/ChildProcess.h"

#include "llvm/ADT/StringRef.h"

#include <cstdlib>
#include <sstream>

namespace echelon {

static void appendWords(std::vector<std::string> &list, const std::string &words) {
  std::istringstream stream(words);
  for (std::string word; stream >> word;)
    list.push_back(word);
}

/// A file as the host compiler takes it for one: -x would be an option, @x a file of options.
static std::string operand(const std::string &file) {
  return llvm::StringRef(file).starts_with("-") || llvm::StringRef(file).starts_with("@") ? "./" + file : file;
}

std::vector<std::string> hostCommand(const std::string &source, const std::string &executable) {
  const char *chosen = std::getenv("CXX"), *flags = std::getenv("CXXFLAGS");
  std::vector<std::string> command{chosen && *chosen ? chosen : ECHELON_HOST_COMPILER};
  appendWords(command, "-std=c++17 " ECHELON_HOST_FLAGS);
  appendWords(command, flags ? flags : "");
  command.push_back("-I" + includeFolder());
  command.insert(command.end(), {operand(source), "-o", operand(executable)});
  command.push_back(runtimeLibrary());
  appendWords(command, ECHELON_HOST_LIBRARIES);
  return command;
}

int compileHost(const std::string &source, const std::string &executable, std::string &log) {
  const TemporaryFolder own; // a compiler that is killed leaves its files
  const CapturedOutput said;
  const int status = runProgram(hostCommand(source, executable), said, own.path());
  log = said.text();
  return status;
}

} // namespace echelon
