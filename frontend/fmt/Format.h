// `echelon fmt`: the canonical form of a spec.
#pragma once
#include "frontend/Diagnostics.h"
#include <optional>

namespace echelon::frontend {

/// The file in canonical form; formatting that again changes nothing. Nothing, with a report, when it does not parse.
///
/// One statement a line, two spaces a level; a block that stood on one line stays there; at most one blank line; spaces
/// by the grammar; the first words of the clauses of train, cluster and device in one column (words of more than nine
/// letters and `layout mesh` keep out of it). Comments stay where they are: on their own line, or after their
/// statement in their column if that is still free. A line broken inside a statement stays broken there.
std::optional<std::string> format(const SourceManager &sources, FileId file, Diagnostics &diagnostics) noexcept;

} // namespace echelon::frontend
