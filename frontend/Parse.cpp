#include "frontend/Parse.h"
#include "frontend/parse/AstBuilder.h"
#include "frontend/parse/ParseTree.h"
#include <algorithm>
#include <cctype>

namespace echelon::frontend {

namespace {
std::unique_ptr<File> parseText(const SourceManager &sources, FileId id, Diagnostics &diagnostics, SourceRange import) {
  if (!checkText(sources, id, diagnostics, import))
    return nullptr;
  ParseTree tree(sources, id, diagnostics);
  auto file = std::make_unique<File>();
  if (tree.root)
    file = AstBuilder(sources, tree.places, diagnostics).build(tree.root, id, tree.failed);
  file->id = id;
  file->broken |= !tree.root;
  file->tokens = tree.tokens().size();
  return file;
}
} // namespace

bool isName(const std::string &text) {
  auto fits = [](char c) { return std::isalnum(static_cast<unsigned char>(c)) || c == '_'; };
  if (text.empty() || std::isdigit(static_cast<unsigned char>(text[0])) ||
      !std::all_of(text.begin(), text.end(), fits) || text.size() > maximalNameLength)
    return false;
  antlr4::ANTLRInputStream input(text);
  return !isReserved(EchelonLexer(&input).nextToken()->getType());
}

std::unique_ptr<File> parse(const SourceManager &sources, FileId id, Diagnostics &diagnostics,
                            SourceRange import) noexcept {
  std::string why;
  try {
    return parseText(sources, id, diagnostics, import);
  } catch (const std::exception &e) {
    why = e.what();
  } catch (...) {
    why = "unknown exception";
  }
  diagnostics.error(Code::E0799, {},
                    "internal error while parsing " + quoted(sources.path(id)) + ": " + escaped(why) +
                        "; please report it with the file");
  return nullptr;
}

} // namespace echelon::frontend
