// ANTLR's view of one file: tokens and parse tree, for the builder of the syntax tree and for `fmt`.
#pragma once
#include "EchelonParser.h"
#include "frontend/parse/Tokens.h"

namespace echelon::frontend {

/// Lexes and parses when it is made; what is wrong is reported. May throw what the standard library throws.
class ParseTree {
public:
  ParseTree(const SourceManager &sources, FileId file, Diagnostics &diagnostics);

  EchelonParser::FileContext *root = nullptr; // null: nothing could be read
  bool failed = false;                        // something is wrong in it
  Tokens &tokens() { return stream; }
  const Places places;

private:
  antlr4::ANTLRInputStream input;
  EchelonLexer lexer;
  Tokens stream;
  EchelonParser parser;
};

} // namespace echelon::frontend
