#include "frontend/Parse.h"
#include "frontend/parse/AstBuilder.h"
#include "frontend/parse/ParseTree.h"

namespace echelon::frontend {

namespace {
std::unique_ptr<File> parseText(const SourceManager &sources, FileId id, Diagnostics &diagnostics, SourceRange import) {
  if (!checkText(sources, id, diagnostics, import))
    return nullptr;
  ParseTree tree(sources, id, diagnostics);
  if (tree.root)
    return AstBuilder(sources, tree.places, diagnostics).build(tree.root, id, tree.failed);
  auto file = std::make_unique<File>();
  file->id = id;
  file->broken = true;
  return file;
}
} // namespace

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
