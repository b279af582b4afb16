// The cache holds one folder a key, made under another name and renamed when it is whole: two builds at once do not
// meet.
#include "tools/driver/build/Executable.h"

#include "tools/driver/ExitCode.h"
#include "tools/driver/build/HostCompiler.h"
#include "tools/driver/build/Paths.h"
#include "tools/driver/build/TemporaryFolder.h"
#include "tools/driver/start/ChildProcess.h"

#include "runtime/launch/Terminal.h"
#include "llvm/Support/FormatVariadic.h"
#include "llvm/Support/Program.h"

#include <cerrno>
#include <chrono>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iostream>
#include <sstream>
#include <unistd.h>

namespace fs = std::filesystem;

namespace echelon {

/// The hash of the program, beside it in the build cache.
static constexpr const char *kHash = ".hash";

static std::string contentOf(const fs::path &file) {
  std::ostringstream content;
  content << std::ifstream(file, std::ios::binary).rdbuf();
  return content.str();
}

/// Whether a program lies in the build cache as it was put there: of a machine that lost power, a part may be left.
static bool isWhole(const std::string &program) { return contentOf(program + kHash) == hashOf({contentOf(program)}); }

namespace {
/// Says that the host compiler runs, as long as one of these lives: on a terminal in a line that goes, or tells at the
/// end how long it took; elsewhere once.
class CompilerRuns {
public:
  CompilerRuns(const std::string &source, const std::string &compiler, const std::string &keptIn)
      : what(frontend::printable(source) + " with " + frontend::printable(compiler)) {
    const std::string line =
        "compiling " + what +
        (keptIn.empty() ? "" : "; from then on the program is kept in " + frontend::printable(keptIn));
    if (isTerminal) // its last column would begin another line
      std::cerr << runtime::cutTo(runtime::terminalColumns(STDERR_FILENO) - 1, line) << std::flush;
    else
      std::cerr << "echelon: " << line << "\n";
  }
  ~CompilerRuns() {
    if (!isTerminal)
      return;
    std::cerr << "\r\033[K";
    if (isDone)
      std::cerr << "compiled " << what << " in " << llvm::formatv("{0:f1}", seconds()).str() << " s\n";
    std::cerr << std::flush;
  }
  CompilerRuns(const CompilerRuns &) = delete;
  void done() { isDone = true; }

private:
  double seconds() const { return std::chrono::duration<double>(Clock::now() - began).count(); }

  using Clock = std::chrono::steady_clock;
  const bool isTerminal = isatty(STDERR_FILENO);
  const std::string what;
  const Clock::time_point began = Clock::now();
  bool isDone = false;
};
} // namespace

bool buildExecutable(const std::string &text, const std::string &path, Machine machine, int &exitCode,
                     const std::string &keptIn) {
  if (const std::string lacks = whatLacks(machine); !lacks.empty()) {
    std::cerr << "echelon: cannot build for a GPU: " << lacks << "\n";
    exitCode = HostCompilerFailed;
    return false;
  }
  std::string source = path + sourceEnding(machine);
  if (std::error_code none; fs::is_directory(path, none)) {
    std::cerr << "echelon: " << frontend::quoted(path) << " is a folder; name a file in it\n";
    exitCode = Usage;
    return false;
  }
  std::ofstream stream(source);
  stream << text;
  if (!stream.flush()) {
    std::cerr << "echelon: cannot write " << frontend::quoted(source) << ": " << std::strerror(errno) << "\n";
    exitCode = Usage;
    return false;
  }
  stream.close();
  std::string log;
  const auto status = [&] {
    const auto nameOf = [](const std::string &file) { return fs::path(file).filename().string(); };
    CompilerRuns runs(nameOf(source), nameOf(hostCommand(source, path, machine).front()), keptIn);
    const int ended = compileHost(source, path, machine, log);
    if (ended == 0)
      runs.done();
    return ended;
  }();
  const bool isFull = log.find(std::strerror(ENOSPC)) != log.npos || log.find(std::strerror(EDQUOT)) != log.npos;
  if (status == 0 && access(path.c_str(), X_OK) == 0)
    return true;
  if (status == 0)
    std::cerr << "echelon: the host compiler " << frontend::quoted(hostCommand(source, path, machine).front())
              << " ended without an error and made no program " << frontend::quoted(path) << "\n"
              << frontend::printable(log, frontend::Lines::Kept);
  else if (status == kNotStarted)
    std::cerr << "echelon: cannot start the host compiler "
              << frontend::quoted(hostCommand(source, path, machine).front())
              << "; install a C++17 compiler, or name one with CXX\n";
  else if (status != kNoProcess)
    std::cerr << "echelon: the host compiler " << frontend::quoted(hostCommand(source, path, machine).front())
              << " ended with exit code " << status << " on the generated program " << frontend::printable(source)
              << (isFull
                      ? "; no space is left where it writes: make room, or write elsewhere (ECHELON_CACHE, or build -o)"
                      : "")
              << "\n"
              << frontend::printable(log, frontend::Lines::Kept);
  exitCode = HostCompilerFailed;
  return false;
}

/// Everything that decides the executable, hashed: the program's text, the command that compiles it with the compiler's
/// own file, the runtime.
static std::string cacheKey(const std::string &text, const std::string &stem, Machine machine) {
  std::vector<std::string> parts = hostCommand(stem + sourceEnding(machine), stem, machine);
  const auto compiler = llvm::sys::findProgramByName(parts.front());
  parts.push_back(fileStamp(compiler ? *compiler : parts.front()));
  parts.push_back(runtimeStamp());
  for (const std::string &part : std::vector<std::string>(parts)) // libraries of a GPU
    if (llvm::StringRef(part).ends_with(".a"))
      parts.push_back(fileStamp(part));
  parts.push_back(text);
  return hashOf(parts);
}

std::string executableOf(Compilation &compilation, int &exitCode, const std::function<std::string()> &refuse) {
  exitCode = SpecWrong;
  if (!compilation.parse() || !compilation.resolve()) {
    compilation.printDiagnostics();
    return "";
  }
  if (std::string why = refuse ? refuse() : ""; !why.empty()) {
    std::cerr << "echelon: " << why << "\n";
    exitCode = Usage;
    return "";
  }
  if (compilation.diagnostics.hasErrors()) {
    compilation.printDiagnostics();
    return "";
  }
  std::string cache = cacheFolder();
  if (cache.empty()) {
    std::cerr << "echelon: cannot make the build cache; set ECHELON_CACHE to a folder that can be written\n";
    exitCode = HostCompilerFailed;
    return "";
  }
  std::string text;
  if (!compilation.elaborate() || !compilation.lower(Stage::Rt) || !compilation.emit(text)) {
    compilation.printDiagnostics();
    return "";
  }
  const std::string stem = stemOf(compilation.options.spec);
  const fs::path kept = fs::path(cache) / cacheKey(text, stem, compilation.options.machine), program = kept / stem;
  std::error_code unreadable;
  if (fs::exists(program, unreadable) && isWhole(program)) {
    compilation.printDiagnostics();
    exitCode = Fine;
    return program;
  }
  if (unreadable) {
    std::cerr << "echelon: cannot read the build cache " << frontend::quoted(kept.string()) << ": "
              << unreadable.message() << "; set ECHELON_CACHE to a folder of your own\n";
    exitCode = HostCompilerFailed;
    return "";
  }
  TemporaryFolder folder;
  if (folder.path().empty()) {
    std::cerr << "echelon: cannot write in the build cache " << frontend::quoted(cache)
              << "; set ECHELON_CACHE to a folder that can be written\n";
    exitCode = HostCompilerFailed;
    return "";
  }
  const std::string built = folder.path() + "/" + stem;
  if (!buildExecutable(text, built, compilation.options.machine, exitCode, cache))
    return "";
  std::ofstream(built + kHash) << hashOf({contentOf(built)});
  folder.rename(kept); // where another build of the same was faster that one serves
  if (!folder.path().empty() && !isWhole(program))
    folder.replace(kept);
  if (!isWhole(program)) {
    std::cerr << "echelon: cannot keep the program in the build cache " << frontend::quoted(kept.string())
              << "; set ECHELON_CACHE to a folder that can be written\n";
    exitCode = HostCompilerFailed;
    return "";
  }
  compilation.printDiagnostics();
  exitCode = Fine;
  return program;
}

} // namespace echelon
