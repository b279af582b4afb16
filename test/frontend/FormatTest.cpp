// `fmt`: the canonical form, that it is one, and that it loses nothing.
#include "frontend/fmt/Format.h"
#include "std/Library.h"
#include <algorithm>
#include <filesystem>
#include <fstream>
#include <gtest/gtest.h>
#include <random>
#include <sstream>

using namespace echelon::frontend;

namespace {
std::string readFile(const std::filesystem::path &path) {
  std::ifstream in(path, std::ios::binary);
  std::stringstream text;
  text << in.rdbuf();
  return text.str();
}

std::vector<std::string> specs() {
  std::vector<std::string> out;
  for (const char *folder : {SPECS_FOLDER, EXAMPLES_FOLDER})
    if (std::filesystem::exists(folder))
      for (const auto &entry : std::filesystem::directory_iterator(folder))
        if (entry.path().extension() == ".ech")
          out.push_back(readFile(entry.path()));
  for (const std::string &name : libraryNames())
    out.push_back(libraryText(name));
  return out;
}

std::string formatted(const std::string &text) {
  SourceManager sources;
  Diagnostics diagnostics(sources);
  std::optional<std::string> out = format(sources, sources.add("test.ech", text), diagnostics);
  EXPECT_TRUE(out) << diagnostics.text() << text;
  return out.value_or("");
}

// What is left without white space and `;`: the same before and after.
std::string substance(std::string text) {
  text.erase(std::remove_if(text.begin(), text.end(),
                            [](char c) { return c == ';' || std::isspace(static_cast<unsigned char>(c)); }),
             text.end());
  return text;
}

// The given specs, the examples and the library are in canonical form.
TEST(Format, LeavesSpecsAlone) {
  for (const std::string &text : specs())
    EXPECT_EQ(formatted(text), text);
}

// Spaces, line ends, columns, comments in all places.
TEST(Format, CanonicalForm) {
  std::string folder = std::string(SPECS_FOLDER) + "/../";
  EXPECT_EQ(formatted(readFile(folder + "messy.ech")), readFile(folder + "messy.formatted.ech"));
}

// Every form that the grammar knows: formatting twice is formatting once, and nothing is lost.
TEST(Format, EveryForm) {
  std::string text = readFile(std::string(SPECS_FOLDER) + "/../every-form.ech"), once = formatted(text);
  EXPECT_EQ(substance(once), substance(text));
  EXPECT_EQ(formatted(once), once);
}

// A wrong unit is no error of syntax, so `fmt` puts it behind a space, and takes what it wrote.
TEST(Format, WrongUnits) {
  for (const char *quantity : {"5B", "5GB", "5GiB", "5ms", "5h", "5Gb/s", "5GB/s", "5TFLOP/s", "5$/h"}) {
    std::string once = formatted("train t {\n  checkpoint every " + std::string(quantity) + " keep 2\n}\n");
    EXPECT_EQ(once.substr(0, 32), "train t {\n  checkpoint every 5 " + std::string(1, quantity[1]));
    EXPECT_EQ(formatted(once), once);
  }
}

// Specs with white space, comments and line ends thrown in: formatting twice is formatting once, and nothing is lost.
TEST(Format, Idempotent) {
  std::mt19937 random(7);
  std::vector<std::string> all = specs();
  for (int run = 0; run < 60; ++run) {
    std::string text = all[random() % all.size()];
    for (int edit = 0; edit < 10; ++edit) {
      static const char *additions[] = {" ", "\n", "\n\n\n", "  # a word\n", "\n# a line\n", "\t"};
      size_t at = text.find_first_of(" \n", random() % text.size());
      if (at == std::string::npos)
        continue;
      size_t start = text.rfind('\n', at) + 1; // not inside a string or comment, and not between a number and its unit
      std::string before = text.substr(start, at - start);
      bool safe = std::count(before.begin(), before.end(), '"') % 2 == 0 && before.find('#') == std::string::npos &&
                  !before.empty() && !std::isdigit(static_cast<unsigned char>(before.back()));
      if (safe)
        text.insert(at, additions[random() % 6]);
    }
    std::string once = formatted(text);
    ASSERT_EQ(substance(once), substance(text));
    ASSERT_EQ(formatted(once), once) << text;
  }
}

// A file that does not parse is not touched.
TEST(Format, RefusesErrors) {
  SourceManager sources;
  Diagnostics diagnostics(sources);
  EXPECT_FALSE(format(sources, sources.add("test.ech", "model M {\n  x = ]\n}\n"), diagnostics));
  EXPECT_EQ(diagnostics.errorCount(), 1u);
}
} // namespace
