// echelon fmt FILE…
#include "frontend/fmt/Format.h"
#include "tools/echelon/Commands.h"

#include "frontend/Diagnostics.h"
#include <fstream>
#include <iostream>
#include <memory>
#include <unistd.h>

namespace echelon {

namespace {
struct FormatOptions {
  std::vector<std::string> files;
  bool check = false, print = false;
};

int format(const FormatOptions &options) {
  int exitCode = Fine;
  for (const std::string &file : options.files) {
    frontend::SourceManager sources;
    frontend::Diagnostics diagnostics(sources);
    std::string why;
    frontend::FileId id = sources.read(file, why);
    if (id < 0) {
      std::cerr << "echelon: cannot read " << frontend::quoted(file) << ": " << why << "\n";
      exitCode = Usage;
      continue;
    }
    std::optional<std::string> text = frontend::format(sources, id, diagnostics);
    if (!text) { // a file that does not parse is left as it is
      diagnostics.print(std::cerr, frontend::wantsColours(STDERR_FILENO));
      exitCode = SpecWrong;
      continue;
    }
    bool same = *text == sources.text(id);
    if (options.print) {
      std::cout << *text;
    } else if (options.check) {
      if (!same) {
        std::cout << frontend::printable(file) << "\n";
        exitCode = SpecWrong;
      }
    } else if (!same && !(std::ofstream(file) << *text).flush()) {
      std::cerr << "echelon: cannot write " << frontend::quoted(file) << "\n";
      exitCode = Usage;
    }
  }
  return exitCode;
}
} // namespace

void addFormat(CLI::App &app, int &exitCode) {
  auto options = std::make_shared<FormatOptions>();
  CLI::App *command = app.add_subcommand("fmt", "rewrite specs in the one canonical form; comments are kept");
  command->add_option("FILES", options->files, "specs to rewrite")->required();
  CLI::Option *check =
      command->add_flag("--check", options->check, "only name files that would change; exit code 1 then");
  command->add_flag("--stdout", options->print, "print instead of rewriting")->excludes(check);
  command->footer("Examples:\n  echelon fmt spec.ech\n  echelon fmt --check *.ech");
  command->callback([options, &exitCode] { exitCode = format(*options); });
}

} // namespace echelon
