#include "frontend/parse/Tokens.h"
#include "EchelonParser.h"

using antlr4::Token;
using P = EchelonParser;

namespace echelon::frontend {

Places::Places(const SourceManager &sources, FileId file) : sources(sources), file(file) {
  std::string_view text = sources.text(file);
  if (text.substr(0, 3) == "\xEF\xBB\xBF")
    markBytes = 3;
  bool ascii = true;
  for (char c : text.substr(markBytes))
    ascii &= static_cast<unsigned char>(c) < 0x80;
  if (ascii)
    return;
  for (uint32_t i = markBytes; i < text.size(); ++i)
    if ((text[i] & 0xC0) != 0x80)
      offsets.push_back(i);
  offsets.push_back(uint32_t(text.size()));
}

uint32_t Places::byteAt(size_t character) const {
  size_t end = sources.text(file).size();
  if (offsets.empty())
    return uint32_t(std::min(end, character + markBytes));
  return offsets[std::min(character, offsets.size() - 1)];
}

SourceRange Places::of(const Token *token) const { return of(token, token); }

SourceRange Places::of(const Token *first, const Token *last) const {
  auto line = uint32_t(first->getLine()), column = uint32_t(first->getCharPositionInLine() + 1);
  if (first->getType() == Token::EOF)
    return {file, uint32_t(sources.text(file).size()), 0, line, column};
  uint32_t begin = byteAt(first->getStartIndex());
  uint32_t end = last && last->getType() != Token::EOF ? byteAt(last->getStopIndex() + 1) : begin;
  return {file, begin, end > begin ? end - begin : 0, line, column};
}

SourceRange Places::after(const Token *token) const {
  size_t length = token->getStopIndex() + 1 - token->getStartIndex();
  return {file, byteAt(token->getStopIndex() + 1), 0, uint32_t(token->getLine()),
          uint32_t(token->getCharPositionInLine() + 1 + length)};
}

bool checkText(const SourceManager &sources, FileId file, Diagnostics &diagnostics, SourceRange import) {
  std::string_view text = sources.text(file);
  if (text.size() > maximalFileBytes) {
    diagnostics.error(Code::E0701, import,
                      quoted(sources.path(file)) + " is larger than " + std::to_string(maximalFileBytes >> 20) +
                          " MiB, the most a spec may have; data is in files that a spec names");
    return false;
  }
  constexpr int kMostTold = 20; // of what does not show: a file of another kind is full of it
  int told = 0;
  for (size_t i = 0; i < text.size() && told < kMostTold;) {
    runtime::Character c = runtime::characterAt(text, i);
    auto here = [&] { return sources.range(file, uint32_t(i), uint32_t(c.bytes)); };
    const auto shown = [&] { return escaped(text.substr(i, c.bytes)); };
    if (!c.valid) {
      diagnostics.error(Code::E0001, here(),
                        "the byte '" + shown() + "' is not text in UTF-8; save the file in that encoding");
      return false;
    }
    bool space = c.code == '\t' || c.code == '\n' || c.code == '\r';
    if (runtime::isControl(c.code) && !space) {
      diagnostics.error(Code::E0006, here(), "the control character '" + shown() + "' does not show; take it out");
      ++told;
    } else if (runtime::turnsDirection(c.code)) {
      diagnostics.error(Code::E0006, here(),
                        "the character '" + shown() + "' makes what follows read other than it is; take it out");
      ++told;
    }
    i += c.bytes;
  }
  return told == 0;
}

bool isWord(const Token *token) {
  std::string text = token->getText();
  return token->getType() != Token::EOF && !text.empty() &&
         (std::isalpha(static_cast<unsigned char>(text[0])) || text[0] == '_');
}

bool isReserved(size_t t) {
  return t == P::AXIS || t == P::PARAM || t == P::REPEAT || t == P::RETURN || t == P::IF || t == P::ELSE ||
         t == P::AS || t == P::TRUE || t == P::FALSE || t == P::NOT;
}

Token *previous(antlr4::TokenStream &tokens, const Token *token) {
  for (size_t i = token->getTokenIndex(); i-- > 0;)
    if (tokens.get(i)->getChannel() == 0)
      return tokens.get(i);
  return nullptr;
}

bool startsLine(antlr4::TokenStream &tokens, const Token *token) {
  Token *before = previous(tokens, token);
  return !before || before->getLine() < token->getLine();
}

namespace {
// How deep the parser would recurse at each token: brackets, and in each bracket the prefixes and powers of the operand
// at hand, as in `- - -x` and `a^b^c`.
class Nesting {
public:
  // False when the token goes too deep.
  bool enter(const Token *token) {
    bool endsOperand = false;
    switch (token->getType()) {
    case P::LPAREN:
    case P::LBRACKET:
    case P::LBRACE:
      levels.push_back(0);
      break;
    case P::RPAREN:
    case P::RBRACKET:
    case P::RBRACE:
      if (levels.size() > 1) {
        prefixes -= levels.back();
        levels.pop_back();
      }
      endsOperand = true;
      break;
    case P::CARET:
    case P::NOT:
      grow();
      break;
    case P::MINUS:
      if (afterOperand)
        reset();
      else
        grow();
      break;
    case P::NUMBER:
    case P::QUANTITY:
    case P::STRING:
      endsOperand = true;
      if (afterOperand) // two operands in a row: another statement
        reset();
      break;
    case P::DOT:
    case P::PERCENT:
    case P::UNIT:
    case P::RATE:
      endsOperand = afterOperand;
      break;
    default:
      endsOperand = isWord(token);
      if (!endsOperand || (afterOperand && !afterDot))
        reset();
    }
    afterOperand = endsOperand;
    afterDot = token->getType() == P::DOT;
    return levels.size() - 1 + prefixes <= maximalNesting;
  }

private:
  void grow() {
    ++levels.back();
    ++prefixes;
  }
  void reset() {
    prefixes -= levels.back();
    levels.back() = 0;
  }
  std::vector<size_t> levels = {0}; // prefixes of each open bracket
  size_t prefixes = 0;              // of all of them
  bool afterOperand = false, afterDot = false;
};
} // namespace

bool Tokens::fill(const Places &places, Diagnostics &diagnostics) {
  fetch(maximalTokens + 1); // one more for the end of the file
  if (!_fetchedEOF)
    diagnostics.error(Code::E0701, places.of(_tokens.back().get()),
                      "the file has more than " + std::to_string(maximalTokens) +
                          " words, signs and comments; what occurs often is said once, in a block or a repeat");
  return _fetchedEOF;
}

bool prepareTokens(Tokens &stream, const Places &places, Diagnostics &diagnostics) {
  bool good = true;
  Nesting nesting;
  std::vector<Token *> tokens;
  for (Token *token : stream.getTokens())
    if (token->getChannel() == 0)
      tokens.push_back(token);
  for (size_t i = 0; i < tokens.size(); ++i) {
    Token *token = tokens[i];
    if (token->getType() == P::UNIT) {
      bool unit = i && tokens[i - 1]->getType() == P::NUMBER && tokens[i - 1]->getLine() == token->getLine() &&
                  tokens[i + 1]->getType() != P::ASSIGN;
      if (!unit)
        static_cast<antlr4::WritableToken *>(token)->setType(P::NAME);
    }
    size_t length = token->getStopIndex() + 1 - token->getStartIndex();
    if (token->getType() == P::NAME && length > maximalNameLength) {
      diagnostics.error(Code::E0703, places.of(token),
                        "a name has at most 64 characters; this one has " + std::to_string(length));
      good = false;
    }
    if (!nesting.enter(token)) {
      diagnostics.error(Code::E0702, places.of(token), "nested more than 256 deep; give the inner parts names");
      return false;
    }
  }
  return good;
}

} // namespace echelon::frontend
