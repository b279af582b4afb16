// echelon verify SPEC [--layouts N]: the generated program under a layout against the one of one rank, in fp64: loss,
// every gradient, every updated tensor after three steps.
//
// A gradient is measured against its tensor's scale, at least 1e-3 of the model's largest; an element whose gradient
// was ever below 1e-5 of that measure is left out of what is compared after its update (an optimizer would walk on
// noise).
#include "tools/echelon/Commands.h"
#include "tools/echelon/Executable.h"
#include "tools/echelon/HostCompiler.h"
#include "tools/echelon/Npy.h"
#include "tools/echelon/Options.h"
#include "tools/echelon/RandomLayout.h"

#include "llvm/Support/Format.h"
#include "llvm/Support/FormatVariadic.h"
#include "llvm/Support/raw_ostream.h"
#include <nlohmann/json.hpp>

#include <cmath>
#include <filesystem>
#include <fstream>
#include <iostream>
#include <map>
#include <memory>
#include <numeric>

namespace fs = std::filesystem;

namespace echelon {

namespace {

constexpr int kSteps = 3;
constexpr double kTolerance = 1e-10;

struct VerifyOptions : CompileOptions {
  int layouts = 0;
  uint64_t seed = 0;
  std::string transport = "threads";
};

/// What one run left behind.
struct Trace {
  std::vector<double> loss;                                                // a step
  std::vector<std::map<std::string, std::vector<double>>> gradient, after; // a step, by path
};

/// Builds, runs kSteps steps and reads what was dumped. False: it has been said why.
bool trace(const CompileOptions &options, const std::string &transport, const std::string &folder, Trace &result,
           int &exitCode) {
  Compilation compilation(options);
  std::string executable = executableOf(compilation, exitCode);
  if (executable.empty())
    return false;
  std::string log = folder + "/log.jsonl", said = folder + "/output.txt";
  std::string from = fs::absolute(options.spec).parent_path().string();
  int status = runProgram({executable, "--folder", from, "--out", folder, "--transport", transport, "--steps",
                           std::to_string(kSteps), "--log", log, "--dump", folder + "/dump", "--dump-state"},
                          said);
  if (status != 0) {
    std::cerr << "echelon: the program ended with " << status << ":\n" << std::ifstream(said).rdbuf();
    exitCode = RunFailed;
    return false;
  }
  std::ifstream stream(log);
  for (std::string line; std::getline(stream, line);) {
    auto row = nlohmann::json::parse(line, nullptr, false);
    if (row.is_object() && row.contains("loss"))
      result.loss.push_back(row["loss"].get<double>());
  }
  for (int step = 1; step <= kSteps; ++step) {
    std::string at = folder + "/dump/" + llvm::formatv("step-{0,0+6}", step).str();
    auto &gradient = result.gradient.emplace_back();
    auto &after = result.after.emplace_back();
    std::error_code none;
    for (const auto &file : fs::directory_iterator(at + "/after", none)) {
      std::string name = file.path().stem().string();
      if (llvm::StringRef(name).starts_with("gradient."))
        gradient[name.substr(9)] = readNpy(file.path().string());
      else
        after[name] = readNpy(file.path().string());
    }
  }
  return true;
}

double largest(const std::vector<double> &values) {
  double most = 0;
  for (double v : values)
    most = std::max(most, std::abs(v));
  return most;
}

struct Worst {
  double error = 0;
  std::string where = "nothing";
  void see(double e, const std::string &what) {
    if (!(e <= error)) { // also takes what is not a number
      error = e;
      where = what;
    }
  }
};

Worst compare(const Trace &one, const Trace &many) {
  Worst worst;
  if (one.loss.size() != kSteps || many.loss.size() != kSteps)
    worst.see(INFINITY, "the number of steps logged");
  std::map<std::string, std::vector<bool>> live;
  for (int s = 0; s < kSteps && worst.error < INFINITY; ++s) {
    std::string step = " of step " + std::to_string(s + 1);
    worst.see(std::abs(one.loss[s] - many.loss[s]) / (std::abs(one.loss[s]) + 1e-300), "loss" + step);
    if (one.gradient[s].size() != many.gradient[s].size() || one.after[s].size() != many.after[s].size() ||
        one.gradient[s].empty())
      worst.see(INFINITY, "the tensors written" + step);
    double most = 0;
    for (const auto &[path, values] : one.gradient[s])
      most = std::max(most, largest(values));
    for (const auto &[path, values] : one.gradient[s]) {
      auto other = many.gradient[s].find(path);
      double measure = std::max(largest(values), 1e-3 * most) + 1e-300;
      if (other == many.gradient[s].end() || other->second.size() != values.size()) {
        worst.see(INFINITY, "the shape of the gradient of " + path + step);
        continue;
      }
      auto &moves = live.try_emplace(path, values.size(), true).first->second;
      for (size_t i = 0; i < values.size(); ++i) {
        worst.see(std::abs(values[i] - other->second[i]) / measure, "gradient of " + path + step);
        moves[i] = moves[i] && std::abs(values[i]) > 1e-5 * measure;
      }
    }
    for (const auto &[path, values] : one.after[s]) {
      auto other = many.after[s].find(path);
      if (other == many.after[s].end() || other->second.size() != values.size()) {
        worst.see(INFINITY, "the shape of " + path + step);
        continue;
      }
      // optimizer.m.PATH moves with PATH
      const std::vector<bool> *moves = nullptr;
      for (const auto &[parameter, mask] : live)
        if (path == parameter || llvm::StringRef(path).ends_with("." + parameter))
          if (mask.size() == values.size() && (!moves || path == parameter))
            moves = &mask;
      double scale = largest(values) + 1e-300;
      for (size_t i = 0; i < values.size(); ++i)
        if (!moves || (*moves)[i])
          worst.see(std::abs(values[i] - other->second[i]) / scale, path + " after step " + std::to_string(s + 1));
    }
  }
  return worst;
}

/// Samples enough for every rank and pass to have two.
int64_t smallBatch(const frontend::TrainPlan &plan) {
  int64_t parts = plan.microBatches * plan.ranks();
  return std::min(plan.batch, std::max<int64_t>(2 * parts, 4));
}

int verify(VerifyOptions options) {
  int exitCode = Fine;
  options.doublePrecision = options.keepGradients = true;
  CompileOptions plain = options;
  Compilation first(plain);
  if (!first.parse() || !first.plan() || !first.elaborate()) {
    first.printDiagnostics();
    return SpecWrong;
  }
  first.printDiagnostics();
  plain.batch = smallBatch(first.trainPlan);
  // A batch that every layout to be tried divides.
  std::vector<LayoutChoice> choices;
  for (int i = 0; i < options.layouts; ++i)
    choices.push_back(randomLayout(first, options.seed + i));
  for (const LayoutChoice &choice : choices)
    plain.batch = std::max(plain.batch, choice.batchMultiple());
  int64_t multiple = first.trainPlan.ranks() * first.trainPlan.microBatches;
  for (const LayoutChoice &choice : choices)
    multiple = std::lcm(multiple, choice.batchMultiple());
  plain.batch = (plain.batch + multiple - 1) / multiple * multiple;

  std::string folder = temporaryFolder();
  if (folder.empty()) {
    std::cerr << "echelon: cannot make a temporary folder in the build cache\n";
    return RunFailed;
  }
  struct Cleaner {
    std::string folder;
    ~Cleaner() {
      std::error_code none;
      fs::remove_all(folder, none);
    }
  } cleaner{folder};

  auto run = [&](CompileOptions one, const std::string &name, Trace &result) {
    std::string own = folder + "/" + name;
    fs::create_directories(own);
    return trace(one, one.oneRank ? "threads" : options.transport, own, result, exitCode);
  };
  CompileOptions alone = plain;
  alone.oneRank = true;
  alone.wholeBatch = true;
  Trace reference;
  if (!run(alone, "one", reference))
    return exitCode;
  int failed = 0, passed = 0, refused = 0;
  auto judge = [&](const std::string &title, const Trace &result) {
    Worst worst = compare(reference, result);
    bool fine = worst.error <= kTolerance;
    (fine ? passed : failed)++;
    llvm::outs() << (fine ? "ok    " : "WRONG ") << title << ": worst " << llvm::format("%.1e", worst.error) << " in "
                 << worst.where << "\n";
    llvm::outs().flush();
  };
  Trace given;
  if (!run(plain, "given", given))
    return exitCode;
  judge("the spec's layout", given);
  for (size_t i = 0; i < choices.size(); ++i) {
    CompileOptions one = plain;
    one.layout = choices[i];
    Compilation trial(one);
    std::string title = "layout " + std::to_string(options.seed + i) + ", " + choices[i].text();
    if (!trial.parse() || !trial.plan() || !trial.elaborate() || !trial.lower(Stage::Dist)) {
      ++refused; // a layout that does not divide is a diagnostic, as it should be
      llvm::outs() << "      " << title << ": refused\n";
      continue;
    }
    Trace result;
    if (!run(one, "random", result))
      return exitCode;
    judge(title, result);
    std::error_code none;
    fs::remove_all(folder + "/random", none);
  }
  llvm::outs() << passed << " passed, " << failed << " failed";
  if (refused)
    llvm::outs() << ", " << refused << " refused";
  llvm::outs() << " (fp64, batch " << plain.batch << ", " << kSteps << " steps, tolerance 1e-10)\n";
  return failed ? RunFailed : Fine;
}

} // namespace

void addVerify(CLI::App &app, int &exitCode) {
  auto options = std::make_shared<VerifyOptions>();
  CLI::App *command =
      app.add_subcommand("verify", "fp64: the layout (and random ones) against one rank, tensor by tensor");
  addSpecOptions(command, *options);
  command->add_option("--layouts", options->layouts, "random layouts to try as well (0)")
      ->check(CLI::NonNegativeNumber);
  command->add_option("--seed", options->seed, "of the first random layout (0)");
  command->add_option("--transport", options->transport, "shm or threads (threads)")
      ->check(CLI::IsMember({"shm", "threads"}));
  command->footer("Examples:\n  echelon verify spec.ech\n  echelon verify spec.ech --layouts 8 --seed 100");
  command->callback([options, &exitCode] { exitCode = verify(*options); });
}

} // namespace echelon
