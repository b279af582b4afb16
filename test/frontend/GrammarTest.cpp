// The grammar reads every spec in one way only.
#include "EchelonLexer.h"
#include "EchelonParser.h"
#include "frontend/parse/Tokens.h"
#include "std/Library.h"
#include <antlr4-runtime.h>
#include <filesystem>
#include <fstream>
#include <gtest/gtest.h>
#include <sstream>

using namespace echelon::frontend;

namespace {
class Reports : public antlr4::BaseErrorListener {
public:
  std::string text;
  void syntaxError(antlr4::Recognizer *, antlr4::Token *, size_t line, size_t column, const std::string &message,
                   std::exception_ptr) override {
    text += std::to_string(line) + ":" + std::to_string(column) + ": " + message + "\n";
  }
  void reportAmbiguity(antlr4::Parser *parser, const antlr4::dfa::DFA &dfa, size_t start, size_t stop, bool,
                       const antlrcpp::BitSet &, antlr4::atn::ATNConfigSet *) override {
    text += "ambiguous in " + parser->getRuleNames()[parser->getATN().decisionToState[dfa.decision]->ruleIndex] + ": " +
            parser->getTokenStream()->getText(antlr4::misc::Interval(start, stop)) + "\n";
  }
};

std::string readAmbiguities(const std::string &text) {
  SourceManager sources;
  Diagnostics diagnostics(sources);
  FileId file = sources.add("test.ech", text);
  Places places(sources, file);
  antlr4::ANTLRInputStream input(text);
  EchelonLexer lexer(&input);
  Tokens tokens(&lexer);
  EXPECT_TRUE(tokens.fill(places, diagnostics));
  prepareTokens(tokens, places, diagnostics);
  EchelonParser parser(&tokens);
  Reports reports;
  parser.removeErrorListeners();
  parser.addErrorListener(&reports);
  parser.getInterpreter<antlr4::atn::ParserATNSimulator>()->setPredictionMode(
      antlr4::atn::PredictionMode::LL_EXACT_AMBIG_DETECTION);
  parser.file();
  return reports.text;
}

std::string readFile(const std::filesystem::path &path) {
  std::ifstream in(path, std::ios::binary);
  std::stringstream text;
  text << in.rdbuf();
  return text.str();
}

TEST(Grammar, SpecsAreUnambiguous) {
  for (const auto &entry : std::filesystem::directory_iterator(SPECS_FOLDER))
    EXPECT_EQ(readAmbiguities(readFile(entry.path())), "") << entry.path();
  for (const std::string &name : libraryNames())
    EXPECT_EQ(readAmbiguities(libraryText(name)), "") << name;
}

// Every form of every clause, statement and place, with nothing but white space between them.
TEST(Grammar, EveryFormIsUnambiguous) {
  EXPECT_EQ(readAmbiguities(readFile(std::string(SPECS_FOLDER) + "/../every-form.ech")), "");
}
} // namespace
