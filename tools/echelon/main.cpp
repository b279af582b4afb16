// echelon: from a text file to a trained model. A driver: every command is a few calls into the library.
#include "tools/echelon/Commands.h"

#include <csignal>
#include <iostream>

int main(int argc, char **argv) {
  using namespace echelon;
  std::signal(SIGPIPE, SIG_DFL);
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
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError &error) {
    return app.exit(error) == 0 ? Fine : Usage; // --help and --version end here, too
  }
  return exitCode;
}
