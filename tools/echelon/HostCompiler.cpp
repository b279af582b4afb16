// The host compiler is started with fork and exec, so that no name in a path is ever read by a shell.
#include "tools/echelon/HostCompiler.h"

#include "tools/echelon/Paths.h"

#include "llvm/ADT/StringRef.h"
#include "llvm/Support/Program.h"

#include <cerrno>
#include <csignal>
#include <cstdlib>
#include <fcntl.h>
#include <fstream>
#include <sstream>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

namespace echelon {

void execute(const std::vector<std::string> &arguments) {
  std::vector<char *> raw;
  for (const std::string &argument : arguments)
    raw.push_back(const_cast<char *>(argument.c_str()));
  raw.push_back(nullptr);
  llvm::ErrorOr<std::string> program = llvm::sys::findProgramByName(arguments[0]); // in PATH, where it has no folder
  if (program)
    execv(program->c_str(), raw.data());
  else
    errno = program.getError().value();
}

int runProgram(const std::vector<std::string> &arguments, const std::string &outputFile) {
  const pid_t parent = getpid();
  pid_t child = fork();
  if (child < 0)
    return kNotStarted;
  if (child == 0) {
    prctl(PR_SET_PDEATHSIG, SIGTERM); // it does not outlive this process
    if (getppid() != parent)
      _exit(kNotStarted);
    if (!outputFile.empty()) {
      int file = open(outputFile.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);
      if (file >= 0) {
        dup2(file, STDOUT_FILENO);
        dup2(file, STDERR_FILENO);
      }
    }
    execute(arguments);
    _exit(kNotStarted);
  }
  int status = 0;
  while (waitpid(child, &status, 0) < 0 && errno == EINTR) {
  }
  return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

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
  std::string said = executable + ".log";
  int status = runProgram(hostCommand(source, executable), said);
  if (status == 0) {
    unlink(said.c_str());
    return 0;
  }
  std::ifstream stream(said);
  std::stringstream text;
  text << stream.rdbuf();
  log = text.str();
  return status;
}

} // namespace echelon
