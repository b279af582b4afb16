// Each file of errors/ gives exactly the diagnostics of its .expected file. ECHELON_UPDATE_EXPECTED=1 writes those
// files again, to be read before they are committed.
#include "frontend/Parse.h"
#include "frontend/elaborate/Elaborate.h"
#include "mlir/IR/MLIRContext.h"
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <gtest/gtest.h>
#include <sstream>

using namespace echelon::frontend;

namespace {
std::vector<std::string> cases() {
  std::vector<std::string> names;
  for (const auto &entry : std::filesystem::directory_iterator(ERRORS_FOLDER))
    if (entry.path().extension() == ".ech")
      names.push_back(entry.path().stem().string());
  std::sort(names.begin(), names.end());
  return names;
}

std::string readFile(const std::string &path) {
  std::ifstream in(path, std::ios::binary);
  std::stringstream text;
  text << in.rdbuf();
  return text.str();
}

// Elaborates every model of the file with its default arguments and four samples.
std::string check(const std::string &path) {
  SourceManager sources;
  Diagnostics diagnostics(sources);
  auto program = parseProgram(sources, path, diagnostics);
  EXPECT_FALSE(diagnostics.hasErrors()) << "these are errors of the parser: " << diagnostics.text();
  mlir::MLIRContext context(mlir::MLIRContext::Threading::DISABLED);
  for (const Model &model : program->main().models) {
    ElaborateOptions options;
    options.model = &model;
    options.file = &program->main();
    options.batch = 4;
    ModelFacts facts;
    auto module = elaborate(context, sources, *program, options, diagnostics, facts);
    EXPECT_FALSE(module) << "an error leaves no module";
  }
  return diagnostics.text();
}

class Errors : public ::testing::TestWithParam<std::string> {
  void SetUp() override { std::filesystem::current_path(ERRORS_FOLDER); }
};

TEST_P(Errors, AreToldExactly) {
  std::string told = check(GetParam() + ".ech"), expected = GetParam() + ".expected";
  if (std::getenv("ECHELON_UPDATE_EXPECTED"))
    std::ofstream(expected, std::ios::binary) << told;
  EXPECT_EQ(told, readFile(expected));
  EXPECT_NE(told, "");
}

std::string testName(const ::testing::TestParamInfo<std::string> &info) {
  std::string name = info.param;
  std::replace(name.begin(), name.end(), '-', '_');
  return name;
}

INSTANTIATE_TEST_SUITE_P(Files, Errors, ::testing::ValuesIn(cases()), testName);

// Every code that the model's elaboration gives is provoked by some file.
TEST(Codes, AreAllProvoked) {
  std::string all;
  for (const std::string &name : cases())
    all += readFile(std::string(ERRORS_FOLDER) + "/" + name + ".expected");
  for (const CodeEntry &entry : diagnosticCodes()) {
    std::string code = spell(entry.code, Severity::Error);
    if (code == "E0127" || code == "E0128") // warnings: test/tools/check/idle-parameters.ech, unseen-metrics.ech
      continue;
    if (code == "E0123") // of machines: test/frontend/errors/machines-from-others.ech
      continue;
    if ((code >= "E0122" && code < "E0300") || code == "E0110" || code == "E0111" || code == "E0112") {
      EXPECT_NE(all.find(code.substr(1) + "]"), std::string::npos) << code << " " << entry.name;
    }
  }
}
} // namespace
