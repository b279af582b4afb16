// Wording and recovery for the parser: one report a statement, in the user's words, and nothing that follows from it.
#pragma once
#include "EchelonParser.h"
#include "frontend/parse/Tokens.h"
#include <DefaultErrorStrategy.h>
#include <set>

namespace echelon::frontend {

/// Instead of guessed insertions and deletions, an error skips to the next line that starts no further right than the
/// statement did, or to the brace that ends its block. What was expected is told as whole things: "an expression".
class SyntaxErrors : public antlr4::DefaultErrorStrategy {
public:
  SyntaxErrors(const Places &places, Diagnostics &diagnostics) : places(places), diagnostics(diagnostics) {}

  void reportError(antlr4::Parser *parser, const antlr4::RecognitionException &e) override;
  antlr4::Token *recoverInline(antlr4::Parser *parser) override;
  void recover(antlr4::Parser *parser, std::exception_ptr e) override;
  void sync(antlr4::Parser *parser) override;

  struct Situation; ///< what a report looks at

private:
  void say(antlr4::Parser *parser, antlr4::Token *at, bool known);
  bool sayLexical(antlr4::Token *at);
  bool sayUnclosed(const Situation &s);
  bool sayUnfinished(const Situation &s);
  bool sayNoStatement(const Situation &s);
  bool sayUnit(const Situation &s);
  bool sayMisplaced(const Situation &s, antlr4::Token *beforeThat);
  void sayNoBeginning(const Situation &s, const std::string &nearest);
  void sayUnexpected(const Situation &s);
  Diagnostic &error(Code code, SourceRange where, std::string message);
  void strayLayout(antlr4::Parser *parser);
  void skip(antlr4::Parser *parser, size_t column, bool atLeastOne);

  const Places &places;
  Diagnostics &diagnostics;
};

/// What the parser would take next, in words: rules that are told as one thing by their description.
std::vector<std::string> expectedThings(antlr4::Parser *parser);
/// The form of the statement or clause that begins with this token, for a note, or null.
const char *formOf(size_t token, size_t rule);
/// Does a statement, clause or declaration with a recovery of its own begin here?
bool isStatementRule(size_t rule);

} // namespace echelon::frontend
