// Trees: what the parser makes of correct specs, and that nothing makes it crash.
#include "frontend/Parse.h"
#include "frontend/ast/Dump.h"
#include "frontend/resolve/RunSettings.h"
#include "std/Library.h"
#include <filesystem>
#include <fstream>
#include <gtest/gtest.h>
#include <random>
#include <sstream>

using namespace echelon::frontend;

namespace {
struct Parsed {
  SourceManager sources;
  Diagnostics diagnostics{sources};
  std::unique_ptr<Program> program;
  explicit Parsed(const std::string &text) {
    program = parseProgram(sources, sources.add("test.ech", text), diagnostics);
  }
};

std::vector<std::pair<std::string, std::string>> specs() {
  std::vector<std::pair<std::string, std::string>> out;
  for (const char *folder : {SPECS_FOLDER, EXAMPLES_FOLDER})
    if (std::filesystem::exists(folder))
      for (const auto &entry : std::filesystem::directory_iterator(folder))
        if (entry.path().extension() == ".ech") {
          std::ifstream in(entry.path());
          std::stringstream text;
          text << in.rdbuf();
          out.push_back({entry.path().string(), text.str()});
        }
  for (const std::string &name : libraryNames())
    out.push_back({name, libraryText(name)});
  return out;
}

// Every spec and the library parse without a word.
TEST(Parse, Specs) {
  for (const auto &[name, text] : specs()) {
    SCOPED_TRACE(name);
    Parsed p(text);
    EXPECT_EQ(p.diagnostics.text(), "");
    for (const Train &train : p.program->main().trains)
      resolveTrain(*p.program, train, p.diagnostics);
    EXPECT_EQ(p.diagnostics.text(), "");
  }
}

// The tree as text shows what the spec says, strings as written, and leaves the library out.
TEST(Parse, Dump) {
  Parsed p("import nn\ntrain t {\n  data text(\"a\\tb\") -> x\n}\n");
  ASSERT_EQ(p.diagnostics.text(), "");
  EXPECT_EQ(dump(*p.program, p.sources), "file test.ech\nimport nn  # 1:8\ntrain t  # 2:1\n"
                                         "  clause data text(\"a\\tb\") -> x  # 3:3\n");
  const auto &data = std::get<DataClause>(p.program->main().trains[0].clauses[0].what);
  EXPECT_EQ(dump(*data.source), "(call text \"a\\tb\")");
}

// Settings in base units, as they are said. The data sheet's figures are taken from the others.
TEST(Parse, Machines) {
  Parsed p("device a { memory 1 GB at 1 GB/s; efficiency product fp32 70%, memory 0.5; response host 2 us }\n"
           "device b = a { efficiency product 0.8; passes softmax 3; curve memory = 1 KB at 2 GB/s, 4 KB at 1 GB/s }\n"
           "link l = 1 GB/s, 1 us { response rate 0.9; protocol p start 4 us }\n"
           "link m = l { at 2 GB/s, 3 us; protocol p rate 0.5; curve send over 2 = 1 KB at 5 us\n"
           "  measured \"2026-11-29\" on \"here\", load 1 }\n");
  ASSERT_EQ(p.diagnostics.text(), "");
  EXPECT_EQ(dump(*p.program, p.sources), "file test.ech\n"
                                         "device a  # 1:1\n"
                                         "  efficiency product fp32 0.7, memory 0.5  # 1:46\n"
                                         "  response host 2e-06  # 1:85\n"
                                         "device b = a  # 2:1\n"
                                         "  efficiency product 0.8  # 2:27\n"
                                         "  passes softmax 3  # 2:47\n"
                                         "  curve memory (1000 2e+09) (4000 1e+09)  # 2:64\n"
                                         "link l  # 3:1\n"
                                         "  response rate 0.9  # 3:34\n"
                                         "  protocol p start 4e-06  # 3:55\n"
                                         "link m = l  # 4:1\n"
                                         "  protocol p rate 0.5  # 4:42\n"
                                         "  curve send over 2 (1000 5e-06)  # 4:58\n"
                                         "  measured 2026-11-29 on here load 1  # 5:12\n");
  EXPECT_DOUBLE_EQ(p.program->main().links[1].speed->bandwidth.value, 2e9);
  EXPECT_DOUBLE_EQ(p.program->main().devices[1].memory->value, 1e9);
}

// `^` binds from the right and tighter than unary minus; a sum is one chain.
TEST(Parse, Precedence) {
  Parsed p("block b(x) {\n  return -x^2^3 + 2 * x - 1\n}\n");
  ASSERT_EQ(p.diagnostics.text(), "");
  auto &chain = cast<ArithmeticExpr>(*cast<ReturnStatement>(*p.program->main().blocks[0].body[0]).value);
  ASSERT_EQ(chain.rest.size(), 2u);
  EXPECT_EQ(chain.rest[0].op, '+');
  EXPECT_EQ(chain.rest[1].op, '-');
  auto &power = cast<PowerExpr>(*cast<NegateExpr>(*chain.first).operand);
  EXPECT_EQ(power.exponent->kind, ExprKind::Power);
  EXPECT_EQ(cast<ArithmeticExpr>(*chain.rest[0].operand).rest[0].op, '*');
}

// Every kind of place in brackets.
TEST(Parse, Places) {
  Parsed p("block b(x) {\n  return x[vocab = t, seq = 0..10][seq -> past, h -> (r, c)][(a, b) -> c][+ batch, + seq = "
           "1]\n}\n");
  ASSERT_EQ(p.diagnostics.text(), "");
  auto &index = cast<IndexExpr>(*cast<ReturnStatement>(*p.program->main().blocks[0].body[0]).value);
  std::vector<Place::Kind> kinds;
  for (const auto &bracket : index.brackets)
    for (const Place &place : bracket.places)
      kinds.push_back(place.kind);
  EXPECT_EQ(kinds, (std::vector<Place::Kind>{Place::At, Place::Slice, Place::Rename, Place::Split, Place::Merge,
                                             Place::Expand, Place::Expand}));
}

// `as` and `with` bind to the call before them.
TEST(Parse, NamedCalls) {
  Parsed p("block b(x) {\n  return x + f(x) as a + f(x) with a.c\n}\n");
  ASSERT_EQ(p.diagnostics.text(), "");
  auto &chain = cast<ArithmeticExpr>(*cast<ReturnStatement>(*p.program->main().blocks[0].body[0]).value);
  EXPECT_EQ(cast<CallExpr>(*chain.rest[0].operand).as->text, "a");
  EXPECT_EQ(cast<CallExpr>(*chain.rest[1].operand).with->text(), "a.c");
}

// Words of clauses and units stay usable as names; `;` and line ends do not matter.
TEST(Parse, ContextualWords) {
  Parsed p("model M {\n  batch = 3; h = 4 s = 5\n  min = h\n  on = batch + s * d\n  loss loss\n}\n");
  ASSERT_EQ(p.diagnostics.text(), "");
  EXPECT_EQ(p.program->main().models[0].body.size(), 6u);
}

// Units come in base units: 10^9 bytes, bits over 8.
TEST(Parse, Quantities) {
  Parsed p("device d {\n  memory 80GB at 8 Gb/s\n  peak fp32 2 TFLOP/s\n}\nlink l = 2 x 1 KB/s, 3 us\n");
  ASSERT_EQ(p.diagnostics.text(), "");
  const Device &d = p.program->main().devices[0];
  EXPECT_EQ(d.memory->value, 80e9);
  EXPECT_EQ(d.bandwidth->value, 1e9);
  EXPECT_EQ(d.peaks[0].rate.value, 2e12);
  EXPECT_EQ(p.program->main().links[0].channel.lanes, 2);
  EXPECT_DOUBLE_EQ(p.program->main().links[0].channel.latency.value, 3e-6);
}

// Counts are literals with `*` and `^`.
TEST(Parse, Counts) {
  Parsed p("train t {\n  steps 3 * 2^2^3\n}\n");
  EXPECT_EQ(std::get<LengthClause>(p.program->main().trains[0].clauses[0].what).count.value, 768);
}

// A node's range is the text it came from, also after characters of several bytes.
TEST(Parse, Ranges) {
  Parsed p("# é€\nmodel M {\n  s = 1  # ü\n  y = relu(s)\n}\n");
  ASSERT_EQ(p.diagnostics.text(), "");
  const Statement &s = *p.program->main().models[0].body[1];
  EXPECT_EQ(p.sources.text(s.range), "y = relu(s)");
  EXPECT_EQ(s.range.line, 4u);
  EXPECT_EQ(s.range.column, 3u);
}

// A statement with an error is left out, and the model says that it is not whole.
TEST(Parse, BrokenStatements) {
  Parsed p("model M {\n  axis batch\n  x = ]\n  y = 1\n}\nmodel N {\n  axis batch\n}\n");
  EXPECT_EQ(p.diagnostics.errorCount(), 1u);
  ASSERT_EQ(p.program->main().models.size(), 2u);
  EXPECT_TRUE(p.program->main().models[0].broken);
  EXPECT_EQ(p.program->main().models[0].body.size(), 2u);
  EXPECT_FALSE(p.program->main().models[1].broken);
}

// Long sums, long chains of brackets and 256 parentheses take no deep recursion.
TEST(Parse, LongAndDeep) {
  std::string sum = "x", index = "x";
  for (int i = 0; i < 8000; ++i) {
    sum += " + x";
    index += "[a = 0]";
  }
  std::string deep = std::string(250, '(') + "x" + std::string(250, ')');
  Parsed p("model M {\n  a = " + sum + "\n  b = " + index + "\n  c = " + deep + "\n}\n");
  EXPECT_EQ(p.diagnostics.text(), "");
}

// Whatever is done to a spec, the parser and the checks end, with a diagnostic or without.
TEST(Parse, Mutations) {
  auto all = specs();
  std::mt19937 random(20240);
  auto below = [&](size_t n) { return size_t(random() % n); };
  const std::string signs = "{}()[]=+-*/^.,;:~\"#<>%0159aexh \n\\\xff";
  for (int run = 0; run < 300; ++run) {
    std::string text = all[below(all.size())].second;
    for (size_t edits = 1 + below(6); edits-- > 0 && !text.empty();) {
      size_t at = below(text.size()), length = std::min(text.size() - at, 1 + below(below(2) ? 3 : 60));
      switch (below(4)) {
      case 0:
        text.erase(at, length);
        break;
      case 1:
        text.insert(at, 1, signs[below(signs.size())]);
        break;
      case 2:
        text.insert(below(text.size()), text.substr(at, length));
        break;
      default:
        text[at] = signs[below(signs.size())];
      }
    }
    Parsed p(text);
    if (p.program)
      for (const Train &train : p.program->main().trains)
        resolveTrain(*p.program, train, p.diagnostics);
    std::string told = p.diagnostics.text();
    ASSERT_EQ(told.find("internal error"), std::string::npos) << told << text;
  }
}
} // namespace
