// echelon check SPEC
#include "tools/echelon/Commands.h"
#include "tools/echelon/Options.h"

#include <iostream>
#include <memory>

void echelon::addCheck(CLI::App &app, int &exitCode) {
  auto options = std::make_shared<CompileOptions>();
  CLI::App *command = app.add_subcommand("check", "parse, resolve, check; every error in one go");
  addSpecOptions(command, *options);
  command->footer(
      "Example:\n  echelon check spec.ech\nWhat is not built yet is a note here; other commands refuse it.");
  command->callback([options, &exitCode] {
    options->allowNotBuilt = true;
    // Every train block is checked unless one is named; a spec without any is checked as far as it goes.
    Compilation first(*options);
    if (!first.parse()) {
      first.printDiagnostics();
      exitCode = SpecWrong;
      return;
    }
    bool wrong = false;
    std::vector<std::string> trains{options->train};
    if (options->train.empty() && !first.program->main().trains.empty()) {
      trains.clear();
      for (const frontend::Train &train : first.program->main().trains)
        trains.push_back(train.name.text);
    }
    for (const std::string &name : trains) {
      CompileOptions one = *options;
      one.train = name;
      Compilation compilation(one);
      if (compilation.parse() && compilation.train && compilation.plan() && compilation.elaborate() &&
          compilation.trainPlan.notBuilt.empty())
        compilation.lower(Stage::Dist);
      wrong |= compilation.printDiagnostics();
    }
    if (wrong)
      exitCode = SpecWrong;
  });
}
