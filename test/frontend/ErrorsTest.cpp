// Each file of errors/ gives exactly the diagnostics of its .expected file. ECHELON_UPDATE_EXPECTED=1 writes those
// files again, to be read before they are committed.
#include "frontend/Parse.h"
#include "frontend/parse/Tokens.h"
#include "frontend/resolve/RunSettings.h"
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

// What `echelon check` tells before it looks into the model.
std::string check(const std::string &path) {
  SourceManager sources;
  Diagnostics diagnostics(sources);
  if (auto program = parseProgram(sources, path, diagnostics))
    for (const Train &train : program->main().trains)
      for (const NotBuilt &part : resolveTrain(*program, train, diagnostics).notBuilt)
        diagnostics.note(Code::E0601, part.range, part.message());
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

// Every code of the lexer, the parser and the train blocks is provoked by some file.
TEST(Codes, AreAllProvoked) {
  std::string all;
  for (const std::string &name : cases())
    all += readFile(std::string(ERRORS_FOLDER) + "/" + name + ".expected");
  // Those need the model, the whole tool, a file of 1 MiB, 100 errors, or a fault of ours; so do codes above the last
  // of each hundred here.
  std::set<std::string> elsewhere = {"E0110", "E0111", "E0112", "E0121", "E0306",
                                     "E0312", "E0601", "E0701", "E0705", "E0799"};
  for (const CodeEntry &entry : diagnosticCodes()) {
    std::string code = spell(entry.code, Severity::Error);
    bool later = (code >= "E0122" && code < "E0300") || (code >= "E0313" && code < "E0400") ||
                 (code >= "E0411" && code < "E0500") || (code >= "E0506" && code < "E0700") || code >= "E0706";
    if (!later && !elsewhere.count(code)) {
      EXPECT_NE(all.find(code), std::string::npos) << code << " " << entry.name;
    }
  }
}

TEST(Codes, AreExplained) {
  std::set<Code> seen;
  for (const CodeEntry &entry : diagnosticCodes()) {
    EXPECT_TRUE(seen.insert(entry.code).second) << spell(entry.code, Severity::Error);
    EXPECT_GT(std::string(entry.text).size(), 20u) << spell(entry.code, Severity::Error);
  }
}

// A file of more than 1 MiB is refused before it is parsed.
TEST(Limits, FileSize) {
  SourceManager sources;
  Diagnostics diagnostics(sources);
  FileId file = sources.add("big.ech", std::string(maximalFileBytes + 1, ' '));
  EXPECT_EQ(parse(sources, file, diagnostics), nullptr);
  EXPECT_EQ(diagnostics.text(),
            "error[E0701]: 'big.ech' is larger than 1 MiB, the most a spec may have; data is in files that a "
            "spec names\n");
}

// A file of more than 60 000 words is refused before it is parsed; a comment counts as one.
TEST(Limits, Words) {
  for (std::string word : {"@ ", "#\n"}) {
    SourceManager sources;
    Diagnostics diagnostics(sources);
    std::string text;
    for (size_t i = 0; i <= maximalTokens; ++i)
      text += word;
    auto file = parse(sources, sources.add("many.ech", text), diagnostics);
    ASSERT_NE(file, nullptr);
    EXPECT_TRUE(file->broken);
    EXPECT_EQ(diagnostics.sorted().size(), 1u);
    EXPECT_NE(diagnostics.text().find("error[E0701]: the file has more than 60000 words, signs and comments"),
              std::string::npos);
  }
}

// Only the first 100 errors are told, and how many are left.
TEST(Limits, Errors) {
  SourceManager sources;
  Diagnostics diagnostics(sources);
  std::string text = "model M {\n";
  for (int i = 0; i < 130; ++i)
    text += "  x = @\n";
  parse(sources, sources.add("many.ech", text + "}\n"), diagnostics);
  EXPECT_EQ(diagnostics.sorted().size(), 101u);
  EXPECT_NE(diagnostics.text().find("error[E0705]: too many errors; 30 more are not shown"), std::string::npos);
}

// The same holds of what is less than an error, counted by itself.
TEST(Limits, Notes) {
  SourceManager sources;
  Diagnostics diagnostics(sources);
  FileId file = sources.add("many.ech", std::string(130, ' '));
  for (uint32_t i = 0; i < 130; ++i)
    diagnostics.note(Code::E0601, sources.range(file, i, 1), "not built yet");
  EXPECT_EQ(diagnostics.sorted().size(), 101u);
  EXPECT_NE(diagnostics.text().find("note[W0705]: too many notes and warnings; 30 more are not shown"),
            std::string::npos);
}

// Of a line of 1 MiB the part around the caret is shown, whatever is in it.
TEST(Limits, LinesShown) {
  SourceManager sources;
  Diagnostics diagnostics(sources);
  FileId file = sources.add("long.ech", std::string(500'000, 'a') + "\u00e9\t!" + std::string(500'000, 'b'));
  diagnostics.error(Code::E0002, sources.range(file, 500'003, 1000), "no");
  EXPECT_EQ(diagnostics.text(), "long.ech:1:500003: error[E0002]: no\n…" + std::string(58, 'a') + "\u00e9\t!" +
                                    std::string(99, 'b') + "…\n" + std::string(60, ' ') + "\t^" + std::string(99, '~') +
                                    "\n");
}

// Writes files into a folder of its own, and what loading the first of them tells.
std::string load(const std::string &test, const std::vector<std::pair<std::string, std::string>> &files) {
  std::filesystem::path folder = std::filesystem::path(testing::TempDir()) / ("echelon-" + test);
  std::filesystem::create_directories(folder);
  std::filesystem::current_path(folder);
  for (const auto &[name, text] : files)
    std::ofstream(name, std::ios::binary) << text;
  SourceManager sources;
  Diagnostics diagnostics(sources);
  parseProgram(sources, files.front().first, diagnostics);
  std::filesystem::current_path(ERRORS_FOLDER);
  std::filesystem::remove_all(folder);
  return diagnostics.text();
}

// What a spec imports counts as if it stood in the spec; after what is too much nothing is read.
TEST(Limits, Imports) {
  std::string most;
  for (size_t i = 0; i < maximalTokens - 10; ++i)
    most += "#\n";
  std::string imports = "import \"words.ech\"\nimport \"more.ech\"\nimport \"none.ech\"\n";
  EXPECT_EQ(load("words", {{"spec.ech", imports}, {"words.ech", most}, {"more.ech", most}}),
            "spec.ech:2:8: error[E0701]: with 'more.ech' the spec and what it imports have more than 1 MiB, or more "
            "than 60000 words, signs and comments\nimport \"more.ech\"\n       ^~~~~~~~~~\n");
  std::string large = std::string(maximalFileBytes - 100, '\n');
  EXPECT_EQ(load("bytes", {{"spec.ech", imports}, {"words.ech", large}, {"more.ech", large}}),
            "spec.ech:2:8: error[E0701]: with 'more.ech' the spec and what it imports have more than 1 MiB, or more "
            "than 60000 words, signs and comments\nimport \"more.ech\"\n       ^~~~~~~~~~\n");
}

// A chain of imports ends, however long it is.
TEST(Limits, ImportsNest) {
  std::vector<std::pair<std::string, std::string>> files;
  for (int i = 0; i < 70; ++i)
    files.push_back({std::to_string(i) + ".ech", "import \"" + std::to_string(i + 1) + ".ech\"\n"});
  EXPECT_EQ(load("nest", files), "64.ech:1:8: error[E0702]: imports nest more than 64 deep; let one file import the "
                                 "others\nimport \"65.ech\"\n       ^~~~~~~~\n");
}
} // namespace
