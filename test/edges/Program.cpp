// A family's program: built, run, and looked at case by case.
#include "test/edges/Program.h"

#include "tools/driver/build/Executable.h"
#include "tools/driver/compile/Compilation.h"
#include "tools/driver/start/ChildProcess.h"
#include "tools/driver/start/Mpirun.h"

#include <algorithm>
#include <filesystem>
#include <fstream>

namespace echelon::edges {

namespace fs = std::filesystem;

namespace {

Ran run(const std::string &spec, const std::string &layout, const std::string &folder, const std::string &transport) {
  Ran ran;
  CompileOptions options;
  options.spec = spec;
  options.layout = layout;
  options.oneRank = layout.empty();
  options.keepGradients = true;
  options.warns = false;
  Compilation build(options);
  int exitCode = 0;
  const std::string executable = executableOf(build, exitCode);
  if (executable.empty()) {
    ran.trouble = "does not build: " + build.diagnostics.text();
    return ran;
  }
  const std::string out = folder + "/out";
  std::error_code none;
  fs::remove_all(out, none);
  fs::create_directories(out, none);
  ran.dump = out + "/dump";
  std::vector<std::string> command = launcher(transport, build.settings.ranks());
  command.insert(command.end(), {executable, "--folder", folder, "--out", out, "--transport", transport, "--deadline",
                                 "60", "--log", out + "/log", "--dump", ran.dump, "--dump-state"});
  const CapturedOutput said;
  const int status = runProgram(command, said);
  fs::remove_all(fs::path(executable).parent_path(), none); // it is run once
  if (status != 0) {
    ran.trouble = "the program ended with " + std::to_string(status) + ": " + said.text();
    return ran;
  }
  std::ifstream log(out + "/log");
  for (std::string line; std::getline(log, line);) {
    auto row = nlohmann::json::parse(line, nullptr, false);
    if (row.is_object() && row.contains("eval"))
      ran.evaluation = row;
    else if (row.is_object() && row.contains("loss"))
      ran.step = row;
  }
  return ran;
}

/// Whether the program ended because of this case.
bool isBroken(const Case &c, const std::string &said) {
  for (const char *what : {"_loss nan", "_loss inf", "_loss -inf", "_loss -nan"})
    if (said.find(" " + c.name + what) != std::string::npos)
      return true;
  for (const char *stored : {"gradient.", ""})
    if (said.find("that is not finite is " + (stored + c.name) + "_") != std::string::npos)
      return true;
  return false;
}

} // namespace

Tally check(const Family &given, const std::string &layout, const std::string &folder, const std::string &transport,
            std::ostream &out, bool shows) {
  Tally tally;
  const std::string title = given.name + (layout.empty() ? ", one rank" : ", " + layout);
  Family family = given;
  Ran ran;
  for (;;) {
    const std::string spec = folder + "/edges.ech";
    std::ofstream(spec) << writeSpec(family, folder);
    ran = run(spec, layout, folder, transport);
    if (ran.trouble.empty())
      break;
    ++tally.wrong;
    // A loss or gradient that is not finite ends a run: what it is of is told, and the others are looked at without it.
    const size_t before = family.cases.size();
    family.cases.erase(std::remove_if(family.cases.begin(), family.cases.end(),
                                      [&](const Case &c) {
                                        const bool broken = isBroken(c, ran.trouble);
                                        if (broken)
                                          out << title << ": " << c.name << ": a loss or gradient is not finite\n";
                                        return broken;
                                      }),
                       family.cases.end());
    if (family.cases.size() == before || family.cases.empty()) {
      out << title << ": " << ran.trouble << "\n";
      return tally;
    }
  }
  for (const Case &c : family.cases) {
    // docs/language.md, "The promise", 2: split, the error is at most 4 times that of one rank
    compare(family, c, ran, layout.empty() ? 1 : 4, title + ": " + c.name, shows, tally, out);
  }
  return tally;
}

} // namespace echelon::edges
