// echelon run SPEC: build if anything changed, then become the program (or mpirun of it).
#include "tools/echelon/ChildProcess.h"
#include "tools/echelon/Commands.h"
#include "tools/echelon/Executable.h"
#include "tools/echelon/Mpirun.h"
#include "tools/echelon/Options.h"

#include "runtime/transport/Patience.h"

#include <algorithm>
#include <cerrno>
#include <cmath>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <iostream>
#include <memory>
#include <unistd.h>

namespace echelon {

namespace {
struct RunOptions : CompileOptions {
  std::string transport = "shm", hosts, log;
  std::vector<std::string> passed; // options of the program, as given
};

/// Replaces this process; returns only when that fails.
int become(const std::vector<std::string> &arguments) {
  execute(arguments);
  const int reason = errno;
  std::cerr << "echelon: cannot start " << frontend::printable(arguments[0]) << ": " << std::strerror(reason)
            << (reason == EACCES ? "; where its filesystem is mounted noexec, set ECHELON_CACHE to a folder elsewhere"
                                 : "")
            << "\n";
  return RunFailed;
}

/// The value that the program gets for one of its options, or nothing.
std::string passedValue(const RunOptions &options, const std::string &name) {
  auto it = std::find(options.passed.begin(), options.passed.end(), name);
  return it == options.passed.end() || it + 1 == options.passed.end() ? "" : *(it + 1);
}

/// Why the command and the plan do not go together, told before anything is built.
std::string refusal(const RunOptions &options, const Compilation &compilation) {
  namespace fs = std::filesystem;
  const frontend::TrainPlan &plan = compilation.trainPlan;
  std::error_code none;
  if (llvm::is_contained(options.passed, "--resume") && plan.checkpoint.directory.empty())
    return "--resume goes on from a snapshot, and train " + plan.name +
           " writes none; add a clause, as in checkpoint every 100 steps";
  const std::string steps = passedValue(options, "--steps"), from = passedValue(options, "--evaluate-from");
  if (plan.steps && !steps.empty() && std::strtoll(steps.c_str(), nullptr, 10) > plan.steps)
    return "--steps " + steps + " stops a run early, and this one has " + std::to_string(plan.steps) +
           " steps; --set steps=" + steps + " makes it longer";
  if (!from.empty() && plan.evaluations.empty())
    return "train " + plan.name + " does not say what to evaluate on; add a clause, as in evaluate every 100 steps";
  if (!from.empty() && !fs::exists(from, none))
    return "--from: there is no " + frontend::quoted(from) + "; name a snapshot, or the folder of a checkpoint clause";
  const fs::path parent = fs::path(options.log).parent_path();
  if (!parent.empty() && !fs::is_directory(parent, none))
    return "--log: there is no folder " + frontend::quoted(parent.string()) + "; make it first";
  return "";
}

int run(RunOptions &options) {
  if (!options.hosts.empty() && options.transport != "mpi") {
    std::cerr << "echelon: --hosts names the machines of --transport mpi; the transport " << options.transport
              << " stays on this one\n";
    return Usage;
  }
  if (!options.hosts.empty() && access(options.hosts.c_str(), R_OK) != 0) {
    std::cerr << "echelon: cannot read the machines " << frontend::quoted(options.hosts) << ": " << std::strerror(errno)
              << "\n";
    return Usage;
  }
  if (options.profile && llvm::is_contained(options.passed, "--dump")) {
    std::cerr << "echelon: --dump writes files in each step, which a profile of the steps would measure; leave one of "
                 "them out\n";
    return Usage;
  }
  if (llvm::is_contained(options.passed, "--dump-state") && !llvm::is_contained(options.passed, "--dump")) {
    std::cerr << "echelon: --dump-state goes with --dump DIR, the folder that it writes to\n";
    return Usage;
  }
  int exitCode = Fine;
  Compilation compilation(options);
  std::string executable = executableOf(compilation, exitCode, [&] { return refusal(options, compilation); });
  if (executable.empty())
    return exitCode;
  const auto &trains = compilation.program->main().trains;
  if (options.train.empty() && trains.size() > 1) {
    std::vector<std::string> names;
    for (const auto &train : trains)
      names.push_back(frontend::quoted(train.name.text));
    std::cerr << "echelon: the spec has " << trains.size() << " train blocks, " << frontend::listed(names)
              << "; this runs the first, " << names[0] << "; --train " << trains[1].name.text << " runs "
              << (trains.size() == 2 ? "the other" : "another") << "\n";
  }
  if (compilation.wouldOverwrite(options.log))
    return Usage;
  const int64_t ranks = compilation.trainPlan.ranks(), cores = runtime::coresOfThisProcess();
  if (ranks > cores && options.hosts.empty())
    std::cerr << "echelon: the mesh has " << ranks << " ranks, which take turns on "
              << (cores == 1 ? "the core" : "the " + std::to_string(cores) + " cores") << " of this machine; a mesh of "
              << cores << " gives each its own\n";
  std::vector<std::string> command = launcher(options.transport, ranks, options.hosts);
  command.push_back(executable);
  std::string folder = std::filesystem::absolute(options.spec).parent_path().string();
  command.insert(command.end(), {"--folder", folder, "--transport", options.transport});
  command.insert(command.end(), options.passed.begin(), options.passed.end());
  std::cout.flush();
  return options.transport == "mpi" ? runMpirun(command, executable) : become(command);
}

// What the program takes for a number is told here already, before anything is built.
CLI::Validator seconds() {
  return {[](const std::string &text) {
            double value = 0;
            return isNumber(text, value) && value > 0 && std::isfinite(value)
                       ? std::string()
                       : "takes seconds above 0, not " + frontend::quoted(text);
          },
          "S"};
}

/// An option that the program itself reads: handed on as it is.
CLI::Option *pass(CLI::App *command, RunOptions &options, const char *name, const char *help) {
  return command->add_option_function<std::string>(
      name, [name, &options](const std::string &value) { options.passed.insert(options.passed.end(), {name, value}); },
      help);
}

/// Options of every command that starts the program.
void addProgramOptions(CLI::App *command, RunOptions &options) {
  command->add_option("--transport", options.transport, "shm (processes, the default), threads or mpi")
      ->check(CLI::IsMember({"shm", "threads", "mpi"}));
  command->add_option("--hosts", options.hosts,
                      "with --transport mpi: a file of machines, one a line, as mpirun reads it");
  pass(command, options, "--deadline", "seconds after which a rank that does not come is given up (10)")
      ->check(seconds());
  pass(command, options, "--threads", "threads of one rank's matrix products (1)")->check(wholeFrom(1, "threads"));
  command->add_option_function<std::string>(
      "--log",
      [&options](const std::string &value) {
        options.passed.insert(options.passed.end(), {"--log", value});
        options.log = value;
      },
      "write one JSON object a step and an evaluation");
}
} // namespace

void addRun(CLI::App &app, int &exitCode) {
  auto options = std::make_shared<RunOptions>();
  CLI::App *command = app.add_subcommand("run", "build if anything changed, then train");
  addSpecOptions(command, *options);
  addRanksOption(command, *options);
  addProgramOptions(command, *options);
  addProfileOption(command, *options);
  pass(command, *options, "--steps", "stop after this step; the schedule stays that of the whole run")
      ->check(wholeFrom<int64_t>(1, "steps"));
  pass(command, *options, "--out", "where a relative checkpoint directory starts, instead of the spec's folder");
  pass(command, *options, "--dump", "folder for start values, batches and random masks, as npy files");
  for (auto [name, help] : {std::pair("--resume", "go on from the newest snapshot"),
                            std::pair("--dump-state", "with --dump: also stored tensors after each step")})
    command->add_flag_callback(name, [name = name, options] { options->passed.push_back(name); }, help);
  command->footer("Examples:\n  echelon run spec.ech --log run.jsonl\n  echelon run spec.ech --resume\n"
                  "  echelon run spec.ech --set optimize.lr=3e-4 --steps 100\n"
                  "  echelon run spec.ech --profile --steps 200\n"
                  "  echelon run spec.ech --transport mpi --hosts machines\n"
                  "Ctrl-C finishes the step, saves and ends; a second one ends at once.");
  command->callback([options, &exitCode] { exitCode = run(*options); });
}

void addEvaluate(CLI::App &app, int &exitCode) {
  auto options = std::make_shared<RunOptions>();
  CLI::App *command = app.add_subcommand("evaluate", "the held-out metrics of a snapshot, under any layout");
  addSpecOptions(command, *options);
  addRanksOption(command, *options);
  addProgramOptions(command, *options);
  command
      ->add_option_function<std::string>(
          "--from",
          [options](const std::string &value) {
            options->passed.insert(options->passed.end(), {"--evaluate-from", value});
          },
          "a snapshot, or a checkpoint directory: its newest")
      ->required();
  command->footer("Example:\n  echelon evaluate spec.ech --from ckpt/shakespeare");
  command->callback([options, &exitCode] { exitCode = run(*options); });
}

} // namespace echelon
