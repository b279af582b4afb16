// echelon explain CODE
#include "frontend/Diagnostics.h"
#include "tools/echelon/Commands.h"

#include <algorithm>
#include <iostream>
#include <memory>

void echelon::addExplain(CLI::App &app, int &exitCode) {
  auto code = std::make_shared<std::string>();
  CLI::App *command = app.add_subcommand("explain", "what a diagnostic's code means, with an example");
  command->add_option("CODE", *code, "a code as printed in a diagnostic, such as E0312")->required();
  command->footer("Example:\n  echelon explain E0312");
  command->callback([code, &exitCode] {
    std::string wanted = *code;
    std::transform(wanted.begin(), wanted.end(), wanted.begin(), [](unsigned char c) { return std::toupper(c); });
    if (!wanted.empty() && wanted[0] == 'W')
      wanted[0] = 'E';
    std::vector<std::string> known;
    for (const frontend::CodeEntry &entry : frontend::diagnosticCodes()) {
      known.push_back(spell(entry.code, frontend::Severity::Error));
      if (known.back() == wanted) {
        std::cout << known.back() << ": " << entry.name << "\n\n" << entry.text << "\n";
        return;
      }
    }
    std::cerr << "echelon: no diagnostic has the code " << frontend::quoted(*code)
              << frontend::didYouMean(wanted, known) << "\n";
    exitCode = Usage;
  });
}
