// echelon run SPEC: build if anything changed, then become the program (or mpirun of it).
#include "tools/driver/build/Executable.h"
#include "tools/driver/start/ChildProcess.h"
#include "tools/driver/start/Mpirun.h"
#include "tools/driver/start/RunPlace.h"
#include "tools/echelon/Commands.h"
#include "tools/echelon/Options.h"

#include "runtime/program/Options.h"
#include "runtime/transport/shared/WaitPolicy.h"

#include "llvm/Support/MathExtras.h"

#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <iostream>
#include <memory>
#include <optional>
#include <unistd.h>

namespace echelon {

namespace {
struct RunOptions : CompileOptions {
  std::string hosts;
  std::string order;                                                      // of an emulated GPU's work
  std::vector<std::pair<std::string, std::optional<std::string>>> passed; // options of the program; flags have no value
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

bool passes(const RunOptions &options, const std::string &name) {
  return llvm::any_of(options.passed, [&](const auto &option) { return option.first == name; });
}

/// The value that the program gets for one of its options, or `otherwise`.
std::string passedValue(const RunOptions &options, const std::string &name, const std::string &otherwise = "") {
  for (const auto &[option, value] : options.passed)
    if (option == name && value)
      return *value;
  return otherwise;
}

/// Whether torchrun, srun or mpirun has started this command, as one rank of many on who knows which machines.
bool isOneOfMany(const RunOptions &options) {
  return passedValue(options, "--transport") == "tcp" &&
         (std::getenv("OMPI_COMM_WORLD_RANK") || std::getenv("SLURM_PROCID") || std::getenv("RANK"));
}

/// Why the command and the plan do not go together, told before anything is built; or it is reported of the spec.
std::string refusal(const RunOptions &options, Compilation &compilation) {
  namespace fs = std::filesystem;
  const frontend::RunSettings &plan = compilation.settings;
  std::error_code none;
  if (passes(options, "--resume") && plan.checkpoint.directory.empty())
    return "--resume goes on from a snapshot, and train " + plan.name +
           " writes none; add a clause, as in checkpoint every 100 steps";
  if (passes(options, "--accept") && !passes(options, "--resume"))
    return "--accept goes with --resume: it says what may be another than the snapshot's";
  const std::string steps = passedValue(options, "--steps"), from = passedValue(options, "--evaluate-from");
  if (plan.steps && !steps.empty() && std::strtoll(steps.c_str(), nullptr, 10) > plan.steps)
    return "--steps " + steps + " stops a run early, and this one has " + std::to_string(plan.steps) +
           " steps; --set " +
           (plan.lengthSamples ? "samples=" + std::to_string(llvm::SaturatingMultiply<uint64_t>(
                                                  std::strtoull(steps.c_str(), nullptr, 10), uint64_t(plan.batch)))
                               : "steps=" + steps) +
           " makes it longer";
  if (!from.empty() && plan.evaluations.empty())
    return "train " + plan.name + " does not say what to evaluate on; add a clause, as in evaluate every 100 steps";
  if (!from.empty() && !fs::exists(from, none))
    return "--from: there is no " + frontend::quoted(from) + "; name a snapshot, or the folder of a checkpoint clause";
  for (const char *option : {"--log", "--trace"}) {
    const fs::path parent = fs::path(passedValue(options, option)).parent_path();
    if (!parent.empty() && !fs::is_directory(parent, none))
      return std::string(option) + ": there is no folder " + frontend::quoted(parent.string()) + "; make it first";
  }
  if (from.empty()) // a snapshot is evaluated under any layout, here
    refuseElsewhere(compilation, options.hosts,
                    isOneOfMany(options) ||
                        (passedValue(options, "--transport") == "mpi" && mayUseOthers(options.hosts)));
  return "";
}

int run(RunOptions &options) {
  if (options.machine == Machine::CudaHost && !passes(options, "--transport"))
    options.passed.emplace_back("--transport", "threads"); // which the emulated NCCL knows
  const std::string transport = passedValue(options, "--transport", runtime::Options().transport);
  if (!options.hosts.empty() && transport != "mpi") {
    std::cerr << "echelon: --hosts names the machines of --transport mpi; the transport " << transport
              << " stays on this one\n";
    return Usage;
  }
  if (passes(options, "--store") && transport != "tcp") {
    std::cerr << "echelon: --store is where the ranks of --transport tcp meet; the transport " << transport
              << (transport == "mpi" ? " finds its own way\n" : " stays on this machine\n");
    return Usage;
  }
  if (!options.hosts.empty() && access(options.hosts.c_str(), R_OK) != 0) {
    std::cerr << "echelon: cannot read the machines " << frontend::quoted(options.hosts) << ": " << std::strerror(errno)
              << "\n";
    return Usage;
  }
  options.profile |= passes(options, "--trace"); // it takes the same probes
  if (options.profile && passes(options, "--dump")) {
    std::cerr << "echelon: --dump writes files in each step, which a profile of the steps would measure; leave one of "
                 "them out\n";
    return Usage;
  }
  if (passes(options, "--dump-state") && !passes(options, "--dump")) {
    std::cerr << "echelon: --dump-state goes with --dump DIR, the folder that it writes to\n";
    return Usage;
  }
  if (!options.order.empty() && options.machine != Machine::CudaHost) {
    std::cerr << "echelon: --seed goes with --target cuda-host: it orders the work of a GPU that the host emulates\n";
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
  if (compilation.wouldOverwrite(passedValue(options, "--log")) ||
      compilation.wouldOverwrite(passedValue(options, "--trace")))
    return Usage;
  const int64_t ranks = compilation.settings.ranks(), cores = runtime::coresOfThisProcess();
  if (ranks > cores && options.hosts.empty() && !isOneOfMany(options))
    std::cerr << "echelon: the mesh has " << ranks << " ranks, which take turns on "
              << (cores == 1 ? "the core" : "the " + std::to_string(cores) + " cores") << " of this machine; a mesh of "
              << cores << " gives each its own\n";
  std::vector<std::string> command = launcher(transport, ranks, options.hosts);
  command.push_back(executable);
  std::string folder = std::filesystem::absolute(options.spec).parent_path().string();
  command.insert(command.end(), {"--folder", folder});
  for (const auto &[option, value] : options.passed) {
    command.push_back(option);
    if (value)
      command.push_back(*value);
  }
  if (!options.order.empty())
    setenv("ECHELON_SEED", options.order.c_str(), 1);
  std::cout.flush();
  return transport == "mpi" ? runMpirun(command, executable, options.hosts) : become(command);
}

/// What is wrong with a value of one of the program's options.
CLI::Validator checkOf(const char *name) {
  const runtime::OptionRow &row = *runtime::optionRow(name);
  return {[&row](const std::string &value) {
            runtime::Options read;
            return frontend::printable(row.set(read, value.c_str()));
          },
          row.argument};
}

/// An option that the program itself reads, which says what it takes: refused here already, before anything is built,
/// and handed on as it is.
CLI::Option *pass(CLI::App *command, RunOptions &options, const char *name) {
  const runtime::OptionRow &row = *runtime::optionRow(name);
  if (!row.argument)
    return command->add_flag_callback(
        name, [name, &options] { options.passed.emplace_back(name, std::nullopt); }, row.help);
  return command
      ->add_option_function<std::string>(
          name, [name, &options](const std::string &value) { options.passed.emplace_back(name, value); }, row.help)
      ->check(checkOf(name));
}

/// Options of every command that starts the program.
void addProgramOptions(CLI::App *command, RunOptions &options) {
  for (const char *name : {"--transport", "--store", "--deadline", "--threads", "--log"})
    pass(command, options, name);
  command->add_option("--hosts", options.hosts,
                      "with --transport mpi: a file of machines, one a line, as mpirun reads it");
}
} // namespace

void addRun(CLI::App &app, int &exitCode) {
  auto options = std::make_shared<RunOptions>();
  CLI::App *command = app.add_subcommand("run", "build if anything changed, then train");
  addSpecOptions(command, *options);
  addRanksOption(command, *options);
  addTargetOption(command, *options);
  command->add_option("--seed", options->order, "with --target cuda-host: which of the legal orders work runs in")
      ->check(wholeFrom<uint64_t>(0, "orders"));
  addProgramOptions(command, *options);
  addProfileOption(command, *options);
  for (const char *name : {"--trace", "--steps", "--resume", "--accept", "--replay", "--out", "--dump", "--dump-state"})
    pass(command, *options, name);
  command->footer("Examples:\n  echelon run spec.ech --log run.jsonl\n  echelon run spec.ech --resume\n"
                  "  echelon run spec.ech --resume --accept data\n"
                  "  echelon run spec.ech --set optimize.lr=3e-4 --steps 100\n"
                  "  echelon run spec.ech --profile --steps 200\n"
                  "  echelon run spec.ech --trace trace.json --steps 200\n"
                  "  echelon run spec.ech --transport mpi --hosts machines\n" +
                  std::string(runtime::kSignalsHelp));
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
          "--from", [options](const std::string &value) { options->passed.emplace_back("--evaluate-from", value); },
          "a snapshot, or a checkpoint directory: its newest")
      ->check(checkOf("--evaluate-from"))
      ->required();
  command->footer("Example:\n  echelon evaluate spec.ech --from ckpt/shakespeare");
  command->callback([options, &exitCode] { exitCode = run(*options); });
}

} // namespace echelon
