// echelon check SPEC
#include "tools/echelon/Commands.h"
#include "tools/echelon/Options.h"

#include <memory>

void echelon::addCheck(CLI::App &app, int &exitCode) {
  auto options = std::make_shared<CompileOptions>();
  CLI::App *command = app.add_subcommand("check", "parse, resolve, check; every error in one go");
  addSpecOptions(command, *options);
  command->footer(
      "Example:\n  echelon check spec.ech\nWhat is not built yet is a note here; other commands refuse it.");
  command->callback([options, &exitCode] {
    options->allowNotBuilt = true;
    Compilation compilation(*options);
    compilation.check();
    if (compilation.printDiagnostics())
      exitCode = SpecWrong;
  });
}
