// What happens between text and parser: the text is checked, lexed, and the tokens looked over once.
#pragma once
#include "EchelonLexer.h"
#include "frontend/Diagnostics.h"
#include <CommonTokenStream.h>

namespace echelon::frontend {

/// Brackets, braces, prefixes and powers may nest this deep: the parser and all that follows recurse no deeper.
constexpr size_t maximalNesting = 256;
constexpr size_t maximalNameLength = 64;
/// A spec and what it imports have at most this many words, signs and comments: each takes about 1 KiB in the tree.
constexpr size_t maximalTokens = 60'000;

/// Turns ANTLR's places, which count characters, into ranges, which count bytes.
class Places {
public:
  Places(const SourceManager &sources, FileId file);
  SourceRange of(const antlr4::Token *token) const;
  SourceRange of(const antlr4::Token *first, const antlr4::Token *last) const;
  /// The empty place behind a token.
  SourceRange after(const antlr4::Token *token) const;

private:
  uint32_t byteAt(size_t character) const;
  const SourceManager &sources;
  FileId file;
  uint32_t markBytes = 0;        // of a byte order mark, which ANTLR drops
  std::vector<uint32_t> offsets; // of each character; empty for ASCII
};

/// True when the text can be lexed: within the size limit, valid UTF-8, nothing hidden in it. Reports what is wrong
/// otherwise. `import`: what asks for the file, invalid for the spec itself.
bool checkText(const SourceManager &sources, FileId file, Diagnostics &diagnostics, SourceRange import);

/// The tokens of a file, lexed once and no further than a file may go.
class Tokens : public antlr4::CommonTokenStream {
public:
  using CommonTokenStream::CommonTokenStream;
  /// Lexes to the end of the file. False, with a report, when there are too many words.
  bool fill(const Places &places, Diagnostics &diagnostics);

private:
  using CommonTokenStream::fill;
};

/// Looks over the tokens: words like `h` and `min` stay units only behind a number on the same line. False, with a
/// report, when names are too long to be told in messages, or brackets or prefixes nest too deeply to be parsed.
bool prepareTokens(Tokens &tokens, const Places &places, Diagnostics &diagnostics);

/// Whether the token is a name or a word of the language.
bool isWord(const antlr4::Token *token);
/// Whether tokens of this type are words that cannot be names.
bool isReserved(size_t type);
/// The visible token before `token`, or null.
antlr4::Token *previous(antlr4::TokenStream &tokens, const antlr4::Token *token);
/// Is it the first token of its line?
bool startsLine(antlr4::TokenStream &tokens, const antlr4::Token *token);

} // namespace echelon::frontend
