// echelon: from a text file to a trained model. A driver: every command is a few calls into the library.
#include "tools/echelon/Commands.h"

#include "frontend/Diagnostics.h"
#include "runtime/launch/Descriptors.h"

#include "llvm/Support/raw_ostream.h"

#include <algorithm>
#include <csignal>
#include <iostream>
#include <map>

/// What is in the spec, and in what way it is said on the command line; else the nearest option.
template <typename Remedy>
static std::string setInstead(const std::string &word, const std::string &value,
                              const std::vector<std::string> &options, Remedy remedy) {
  static const std::map<std::string, std::pair<std::string, std::string>> inSpec = {
      // with an example's value
      {"lr", {"optimize.lr", "0.1"}},      {"learning-rate", {"optimize.lr", "0.1"}},
      {"batch", {"batch", "64"}},          {"batch-size", {"batch", "64"}},
      {"epochs", {"epochs", "3"}},         {"seed", {"seed", "1"}},
      {"precision", {"precision", "fp64"}}};
  if (auto it = inSpec.find(word); it != inSpec.end() && std::count(options.begin(), options.end(), "--set"))
    return "; the spec says it, and --set " + it->second.first + "=" +
           (value.empty() ? it->second.second : echelon::frontend::escaped(value)) + " says it again";
  if (word == "gpus" || word == "nproc" || word == "nodes" || word == "np" || word == "device")
    return "; the spec's layout says how many ranks there are";
  return remedy("--" + word, options);
}

/// The value that an option is given, in the same word or the next.
static std::string valueOf(const std::string &word, const std::string &next) {
  size_t assign = word.find('=');
  return assign != std::string::npos ? word.substr(assign + 1) : next.substr(0, 1) == "-" ? "" : next;
}

/// The command that is asked for; null: there is none of that name.
static const CLI::App *commandOf(const CLI::App &app, int argc, char **argv) {
  for (const CLI::App *known : app.get_subcommands(nullptr))
    if (argc > 1 && known->get_name() == argv[1])
      return known;
  return nullptr;
}

/// What is said of a command or an option that does not exist; empty: all exist.
static std::string nearestTo(const CLI::App &app, int argc, char **argv) {
  using echelon::frontend::quoted;
  auto remedy = [](const std::string &word, const std::vector<std::string> &known) {
    std::string hint = echelon::frontend::didYouMean(word, known);
    return hint.empty() ? "; there are " + echelon::frontend::listed(known) : hint;
  };
  std::vector<std::string> commands, options;
  for (const CLI::App *command : app.get_subcommands(nullptr))
    commands.push_back(command->get_name());
  if (argc < 2)
    return "say what to do: " + echelon::frontend::listed(commands, "or") + "; --help tells more";
  if (argv[1][0] == '-')
    return "";
  const CLI::App *command = commandOf(app, argc, argv);
  if (!command)
    return "there is no command " + quoted(argv[1]) +
           (std::string(argv[1]) == "train" ? "; did you mean 'run'?" : remedy(argv[1], commands));
  for (const CLI::Option *option : command->get_options())
    for (const std::string &name : option->get_lnames())
      options.push_back("--" + name);
  for (int i = 2; i < argc; ++i) {
    std::string word = argv[i], name = word.substr(0, word.find('='));
    if (name.size() > 2 && name.compare(0, 2, "--") == 0 &&
        std::find(options.begin(), options.end(), name) == options.end())
      return command->get_name() + " has no option " + quoted(name) +
             setInstead(name.substr(2), valueOf(word, i + 1 < argc ? argv[i + 1] : ""), options, remedy);
    const CLI::Option *option = command->get_option_no_throw(name);
    if (option && option->get_expected_min() > 0 && i + 1 == argc && word == name)
      return name + " takes a value: " + name + " " +
             option->get_type_name().substr(option->get_type_name().find(':') + 1);
  }
  if (argc == 2 && command->get_option_no_throw("SPEC"))
    return command->get_name() + " needs a spec, as in echelon " + command->get_name() + " spec.ech";
  return "";
}

/// What is said of an option that takes a value and has nothing after its `=`: the next word would be taken for it.
static std::string withoutValue(const CLI::App &app, int argc, char **argv) {
  const CLI::App *command = commandOf(app, argc, argv);
  for (int i = 2; command && i < argc && std::string(argv[i]) != "--"; ++i) {
    std::string name = argv[i];
    if (name.size() < 3 || name.back() != '=')
      continue;
    name.pop_back();
    const CLI::Option *option = command->get_option_no_throw(name);
    if (option && option->get_expected_min() > 0)
      return name + "= has nothing after its =; its value goes there";
  }
  return "";
}

/// What is printed and lost, as on a disk that is full, is an error.
static int flushOutput() {
  llvm::outs().flush();
  std::cout.flush();
  const bool lost = llvm::outs().has_error() || !std::cout;
  llvm::outs().clear_error(); // else its end is an abort
  if (!lost)
    return echelon::Fine;
  std::cerr << "echelon: cannot write the standard output\n";
  return echelon::Usage;
}

int main(int argc, char **argv) {
  using namespace echelon;
  std::signal(SIGPIPE, SIG_DFL);
  std::signal(SIGCHLD, SIG_DFL); // where it is ignored nobody knows how a compiler ended
  std::signal(SIGXFSZ, SIG_IGN); // a file that may not grow is an error of the write
  runtime::openStandardDescriptors();
  CLI::App app("echelon: a training run is one text file");
  app.set_version_flag("--version", std::string("echelon ") + ECHELON_VERSION);
  app.require_subcommand(1);
  app.footer("Examples:\n"
             "  echelon run examples/mlp_fashion.ech            compile and train\n"
             "  echelon run spec.ech --steps 20 --log out.jsonl stop early, write a log\n"
             "  echelon build spec.ech --emit cpp               read the program\n"
             "  echelon plan spec.ech                           memory and communication, before running\n"
             "  echelon verify spec.ech --layouts 4             the layout against one rank, in double precision\n"
             "Exit codes: 0 fine, 1 the spec is wrong, 2 usage, 3 the host compiler failed, 4 the run failed.");
  int exitCode = Fine;
  addCheck(app, exitCode);
  addFormat(app, exitCode);
  addExplain(app, exitCode);
  addBuild(app, exitCode);
  addRun(app, exitCode);
  addEvaluate(app, exitCode);
  addPlan(app, exitCode);
  addVerify(app, exitCode);
  addCalibrate(app, exitCode);
  if (const std::string wrong = withoutValue(app, argc, argv); !wrong.empty()) {
    std::cerr << "echelon: " << wrong << "\n";
    return Usage;
  }
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError &error) {
    if (std::string unknown = nearestTo(app, argc, argv); error.get_exit_code() && !unknown.empty()) {
      std::cerr << "echelon: " << unknown << "\n";
      return Usage;
    }
    if (error.get_exit_code() == 0) { // --help and --version
      app.exit(error);
      return flushOutput();
    }
    std::cerr << frontend::printable(error.what())
              << "\nRun with --help for more information.\n"; // it quotes arguments
    return Usage;
  }
  const int printed = flushOutput();
  return exitCode == Fine ? printed : exitCode;
}
