// What the formatter must know of each token, read off the parse tree.
#pragma once
#include "frontend/parse/ParseTree.h"
#include <map>
#include <set>

namespace echelon::frontend {

/// Tokens by their index in the stream.
struct TokenRoles {
  std::set<size_t> starts;           // first tokens of statements, clauses and declarations
  std::set<size_t> inlineStarts;     // those in blocks that stay on one line
  std::set<size_t> openers, closers; // braces of blocks over several lines
  std::set<size_t> tightParens;      // of calls: `f(`, not `over (`
  std::set<size_t> tightColons;      // of formals: `x: axis`
  std::set<size_t> tightRanges;      // `0..10`
  std::set<size_t> prefixes;         // unary minus: nothing after it
  std::map<size_t, size_t> columns;  // first words of clauses: how wide they are printed
};

TokenRoles rolesOfTokens(antlr4::tree::ParseTree *root, antlr4::CommonTokenStream &tokens);

} // namespace echelon::frontend
