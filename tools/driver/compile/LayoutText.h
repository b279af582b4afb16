// Another layout than the spec's, in the language itself: for `verify`, and for what would fit.
#pragma once
#include "frontend/Source.h"
#include "frontend/ast/Ast.h"
#include <string>

namespace echelon {

/// The file of this train block with `layout` (all that follows the word: "mesh(dp = 2) { split batch over dp }") in
/// place of its layout clause, and on as many ranks as it wants.
std::string withLayout(const frontend::SourceManager &sources, const frontend::Train &train, const std::string &layout);

/// The text after the word `layout`, with one more line in it; empty where there is no layout clause.
std::string layoutWith(const frontend::SourceManager &sources, const frontend::Train &train, const std::string &line);

} // namespace echelon
