#include "frontend/fmt/Format.h"
#include "frontend/fmt/TokenRoles.h"

using namespace antlr4;
using P = EchelonParser;

namespace echelon::frontend {

namespace {
size_t characters(const std::string &text) {
  size_t n = 0;
  for (char c : text)
    n += (c & 0xC0) != 0x80;
  return n;
}

std::string withoutTrailingSpace(std::string text) {
  while (!text.empty() && (text.back() == ' ' || text.back() == '\t' || text.back() == '\r'))
    text.pop_back();
  return text;
}

// Where the unit of `80GB` begins.
size_t unitOf(const std::string &quantity) { return quantity.find_first_of("BKMGTPnumshd$", 1); }

// Goes over the tokens once, comments among them, and puts each on a new line, behind a space, or close to the last.
class Writer {
public:
  Writer(const TokenRoles &marks, CommonTokenStream &tokens) : marks(marks), tokens(tokens) {}

  std::string run() {
    for (Token *token : tokens.getTokens()) {
      if (token->getType() == Token::EOF)
        break;
      if (token->getChannel() != 0)
        comment(token);
      else if (token->getType() != P::SEMI) // put back where statements share a line
        visible(token);
    }
    endLine();
    return std::move(out);
  }

private:
  void comment(Token *token) {
    bool own = !lastInSource || commented || lastInSource->getLine() < token->getLine();
    std::string text = withoutTrailingSpace(token->getText());
    if (own) {
      endLine();
      // Inside a statement a comment is where the statement goes on.
      beginLine(token, insideStatement(token) ? depth + 2 : depth);
      line += text;
    } else {
      size_t column = std::max(characters(line) + 2, size_t(token->getCharPositionInLine()));
      line += std::string(column - characters(line), ' ') + text;
    }
    commented = true;
    lastInSource = token;
  }

  void visible(Token *token) {
    size_t index = token->getTokenIndex();
    bool closes = marks.closers.count(index), starts = marks.starts.count(index);
    if (closes)
      --depth;
    bool breaks = starts || closes || commented;
    bool joins = token->getType() == P::LBRACE || token->getType() == P::ELSE; // these never begin a line by themselves
    if (!breaks && !joins && last && last->getLine() < token->getLine() && !marks.inlineStarts.count(index))
      breaks = token->getType() != P::RPAREN && token->getType() != P::COMMA;
    if (breaks) {
      endLine();
      bool continues =
          !starts && !closes &&
          !(last && (marks.openers.count(last->getTokenIndex()) || marks.closers.count(last->getTokenIndex())));
      beginLine(token, continues ? depth + 2 : depth);
    } else if (marks.inlineStarts.count(index) && last->getType() != P::LBRACE) {
      line += "; ";
    } else if (last && space(last, token)) {
      line += " ";
    }
    write(token);
    if (marks.openers.count(index))
      ++depth;
    last = lastInSource = token;
  }

  void write(Token *token) {
    std::string text = token->getText();
    if (token->getType() == P::QUANTITY)
      text.insert(unitOf(text), " ");
    line += text;
    auto column = marks.columns.find(token->getTokenIndex());
    if (column != marks.columns.end())
      line += std::string(column->second - text.size(), ' ');
  }

  // Is there anything of the statement at hand after this comment?
  bool insideStatement(Token *token) {
    next = std::max(next, token->getTokenIndex() + 1);
    while (tokens.get(next)->getChannel() != 0)
      ++next;
    size_t type = tokens.get(next)->getType();
    return type != Token::EOF && type != P::RBRACE && type != P::SEMI && !marks.starts.count(next) && last &&
           !marks.openers.count(last->getTokenIndex());
  }

  void beginLine(Token *token, size_t level) {
    bool first = out.empty(), afterOpener = last && lastInSource == last && marks.openers.count(last->getTokenIndex());
    bool closes = marks.closers.count(token->getTokenIndex());
    if (!first && !afterOpener && !closes && lastInSource && token->getLine() > lastInSource->getLine() + 1)
      out += "\n";
    line = std::string(2 * level, ' ');
  }

  void endLine() {
    if (!withoutTrailingSpace(line).empty())
      out += withoutTrailingSpace(line) + "\n";
    line.clear();
    commented = false;
  }

  bool space(Token *before, Token *token) {
    size_t b = before->getType(), t = token->getType();
    if (b == P::LPAREN || b == P::LBRACKET || t == P::RPAREN || t == P::RBRACKET || t == P::COMMA || t == P::LBRACKET ||
        t == P::PERCENT)
      return false;
    if (b == P::DOT || t == P::DOT || b == P::CARET || t == P::CARET || marks.prefixes.count(before->getTokenIndex()))
      return false;
    if (t == P::LPAREN && marks.tightParens.count(token->getTokenIndex()))
      return false;
    if (t == P::COLON && marks.tightColons.count(token->getTokenIndex()))
      return false;
    if (marks.tightRanges.count(token->getTokenIndex()) || marks.tightRanges.count(before->getTokenIndex()))
      return false;
    return !(b == P::LBRACE && t == P::RBRACE);
  }

  const TokenRoles &marks;
  CommonTokenStream &tokens;
  std::string out, line;
  size_t depth = 0;
  size_t next = 0;               // where the first visible token after the last comment stands
  bool commented = false;        // the line ends in a comment
  Token *last = nullptr;         // the last visible token, without `;`
  Token *lastInSource = nullptr; // the same, or a comment
};
} // namespace

std::optional<std::string> format(const SourceManager &sources, FileId file, Diagnostics &diagnostics) noexcept {
  try {
    if (!checkText(sources, file, diagnostics, {}))
      return std::nullopt;
    size_t before = diagnostics.errorCount();
    ParseTree tree(sources, file, diagnostics);
    if (!tree.root || tree.failed || diagnostics.errorCount() != before)
      return std::nullopt;
    return Writer(rolesOfTokens(tree.root, tree.tokens()), tree.tokens()).run();
  } catch (const std::exception &e) {
    diagnostics.error(Code::E0799, {},
                      "internal error while formatting " + quoted(sources.path(file)) + ": " + escaped(e.what()));
    return std::nullopt;
  }
}

} // namespace echelon::frontend
