// echelon build SPEC [-o EXE] [--emit STAGE] [--dump-stages DIR] [--certify [--verify]]
#include "tools/driver/build/Executable.h"
#include "tools/driver/build/Paths.h"
#include "tools/driver/compile/Certificate.h"
#include "tools/driver/compile/StageDump.h"
#include "tools/echelon/Commands.h"
#include "tools/echelon/Options.h"

#include "frontend/ast/Dump.h"
#include "llvm/Support/raw_ostream.h"

#include <cerrno>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iostream>
#include <memory>

namespace {
struct BuildOptions : echelon::CompileOptions {
  std::string output, emit = "exe";
  bool certify = false, verify = false;
};
} // namespace

namespace echelon {

/// Text to the file named by -o, or to standard output.
static bool write(const std::string &text, const std::string &file) {
  if (file.empty() || file == "-") {
    std::cout << text << std::flush;
    return std::cout.good();
  }
  std::ofstream stream(file);
  stream << text;
  if (stream.flush())
    return true;
  std::cerr << "echelon: cannot write " << frontend::quoted(file) << ": " << std::strerror(errno) << "\n";
  return false;
}

/// EXE.certificate: what has been proven of the program, and found by `verify`. The exit code.
static int certify(const BuildOptions &options, const Compilation &compilation, const std::string &text,
                   const std::string &executable) {
  std::optional<Verified> verified;
  if (options.verify) {
    VerifyOptions trial;
    static_cast<CompileOptions &>(trial) = options;
    trial.profile = false;
    if (const int failed = verify(trial, &verified.emplace()); failed != Fine)
      return failed;
  }
  const std::string file = executable + ".certificate";
  if (compilation.wouldOverwrite(file))
    return Usage;
  if (!write(certificateOf(compilation, text, verified), file))
    return Usage;
  std::cout << frontend::printable(file) << "\n";
  return Fine;
}

/// Whether options go together; says on standard error which do not.
static bool goTogether(const BuildOptions &options) {
  if (!options.dumpStages.empty() && (options.emit == "ast" || options.emit == "ech")) {
    std::cerr << "echelon: --dump-stages writes the IR after each pass, and --emit " << options.emit
              << " is what comes before the first; leave one of them out\n";
    return false;
  }
  if (options.profile && options.emit != "cpp" && options.emit != "exe") {
    std::cerr << "echelon: --profile is of the program, and --emit " << options.emit
              << " comes before there is one; leave one of them out\n";
    return false;
  }
  if (options.certify && options.emit != "exe") {
    std::cerr << "echelon: --certify is of the executable, and --emit " << options.emit
              << " comes before there is one; leave one of them out\n";
    return false;
  }
  return true;
}

static int build(const BuildOptions &options) {
  if (!goTogether(options))
    return Usage;
  Compilation compilation(options);
  auto stop = [&] {
    compilation.printDiagnostics();
    return SpecWrong;
  };
  if (!compilation.parse())
    return stop();
  if (compilation.wouldOverwrite(options.output)) // the spec and its imports, before the tree is written
    return Usage;
  if (options.emit == "ast")
    return write(frontend::dump(*compilation.program, compilation.sources), options.output) ? Fine : Usage;
  if (!options.dumpStages.empty()) {
    std::error_code error;
    std::filesystem::create_directories(options.dumpStages, error);
    if (error) {
      std::cerr << "echelon: cannot make the folder " << frontend::quoted(options.dumpStages) << "\n";
      return Usage;
    }
  }
  if (!compilation.resolve() || !compilation.elaborate())
    return stop();
  if (compilation.wouldOverwrite(options.output)) // its data
    return Usage;
  std::string text;
  if (options.emit == "ech" || options.emit == "dist" || options.emit == "rt") {
    Stage stage = options.emit == "dist" ? Stage::Dist : Stage::Rt;
    if (options.emit != "ech" && !compilation.lower(stage))
      return stop();
    llvm::raw_string_ostream stream(text);
    compilation.module->print(stream, readableIr());
    stream << "\n";
    compilation.printDiagnostics();
    return write(text, options.output) ? Fine : Usage;
  }
  if (!compilation.lower(Stage::Rt) || !compilation.emit(text))
    return stop();
  compilation.printDiagnostics();
  if (options.emit == "cpp")
    return write(text, options.output) ? Fine : Usage;
  std::string executable = options.output.empty() ? stemOf(options.spec) : options.output;
  int exitCode = Fine;
  if (!buildExecutable(text, executable, options.machine, exitCode))
    return exitCode;
  std::cout << frontend::printable(executable) << "\n" << std::flush; // before what a verification prints
  return options.certify ? certify(options, compilation, text, executable) : Fine;
}

void addBuild(CLI::App &app, int &exitCode) {
  auto options = std::make_shared<BuildOptions>();
  CLI::App *command = app.add_subcommand("build", "compile; stop at any stage");
  addSpecOptions(command, *options);
  addRanksOption(command, *options);
  command->add_option("-o", options->output, "file to write (the spec's name; text goes to standard output)");
  command->add_option("--emit", options->emit, "ast, ech, dist, rt, cpp (of a GPU CUDA C++) or exe")
      ->check(CLI::IsMember({"ast", "ech", "dist", "rt", "cpp", "exe"}));
  addTargetOption(command, *options);
  addProfileOption(command, *options);
  CLI::Option *certify = command->add_flag("--certify", options->certify,
                                           "write what has been proven of the program beside it, as NAME.certificate");
  command->add_flag("--verify", options->verify, "the certificate says what `echelon verify` finds, too")
      ->needs(certify);
  command->add_option("--dump-stages", options->dumpStages, "folder for the IR after each pass");
  command->footer("Examples:\n  echelon build spec.ech -o train        an executable\n"
                  "  echelon build spec.ech --emit dist      who holds what, and what moves\n"
                  "  echelon build spec.ech --dump-stages d  the IR after each pass");
  command->callback([options, &exitCode] { exitCode = build(*options); });
}

} // namespace echelon
