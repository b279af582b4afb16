// Another layout than the spec's, in the language itself, for `verify`.
#pragma once
#include "frontend/Source.h"
#include "frontend/ast/Ast.h"
#include <string>

namespace echelon {

/// The file of this train block with `layout` (all that follows the word: "mesh(dp = 2) { split batch over dp }") in
/// place of its layout clause, and on as many ranks as it wants.
std::string withLayout(const frontend::SourceManager &sources, const frontend::Train &train, const std::string &layout);

} // namespace echelon
