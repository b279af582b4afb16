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

std::string whatLacks(Machine machine) {
  if (machine == Machine::Cpu || *ECHELON_CUDA_HOST_LIBRARY == 0)
    return machine == Machine::Cpu ? "" : "CUDA's headers were not there when Echelon was built; run setup.sh --cuda";
  if (machine == Machine::Cuda && *ECHELON_CUDA_LIBRARY == 0)
    return "nvcc was not there when Echelon was built; run setup.sh --cuda";
  return "";
}

const char *sourceEnding(Machine machine) { return machine == Machine::Cpu ? ".cpp" : ".cu"; }

/// nvcc's, to what runs the program.
static std::vector<std::string> cudaCommand(const std::string &source, const std::string &executable) {
  std::vector<std::string> command{ECHELON_NVCC, "-std=c++17", "-O3", "--expt-relaxed-constexpr"};
  appendWords(command, ECHELON_CUDA_ARCHITECTURES);
  command.insert(command.end(), {"-I" + includeFolder(), operand(source), "-o", operand(executable)});
  command.push_back(ECHELON_CUDA_LIBRARY);
  return command;
}

/// The host compiler's. A program for an emulated GPU is read as C++.
static std::vector<std::string> cpuCommand(const std::string &source, const std::string &executable, bool isEmulated) {
  const char *chosen = std::getenv("CXX"), *flags = std::getenv("CXXFLAGS");
  std::vector<std::string> command{chosen && *chosen ? chosen : ECHELON_HOST_COMPILER};
  appendWords(command, isEmulated ? "-std=c++17 -O2" : "-std=c++17 " ECHELON_HOST_FLAGS);
  appendWords(command, flags ? flags : "");
  command.push_back("-I" + includeFolder());
  if (isEmulated)
    command.insert(command.end(), {"-isystem", ECHELON_CUDA_HEADERS, "-x", "c++"});
  command.push_back(operand(source));
  if (isEmulated)
    command.insert(command.end(), {"-x", "none"});
  command.insert(command.end(), {"-o", operand(executable)});
  if (isEmulated)
    command.push_back(ECHELON_CUDA_HOST_LIBRARY);
  return command;
}

std::vector<std::string> hostCommand(const std::string &source, const std::string &executable, Machine machine) {
  std::vector<std::string> command = machine == Machine::Cuda
                                         ? cudaCommand(source, executable)
                                         : cpuCommand(source, executable, machine == Machine::CudaHost);
  command.push_back(runtimeLibrary());
  appendWords(command, ECHELON_HOST_LIBRARIES);
  if (machine == Machine::Cuda)
    appendWords(command, ECHELON_CUDA_LIBRARIES);
  return command;
}

int compileHost(const std::string &source, const std::string &executable, Machine machine, std::string &log) {
  const TemporaryFolder own; // a compiler that is killed leaves its files
  const CapturedOutput said;
  const int status = runProgram(hostCommand(source, executable, machine), said, own.path());
  log = said.text();
  return status;
}

} // namespace echelon
