// From text to syntax tree.
#pragma once
#include "frontend/Diagnostics.h"
#include "frontend/ast/Ast.h"

namespace echelon::frontend {

/// Parses one file. Never throws; what is wrong is reported and the rest of the file still parsed, so that the tree
/// holds every statement that was read without an error. Null only when nothing could be read (not UTF-8, too large).
/// `import`: what asks for the file, if something does.
std::unique_ptr<File> parse(const SourceManager &sources, FileId file, Diagnostics &diagnostics,
                            SourceRange import = {}) noexcept;

/// Whether `text` can appear where the language expects a name.
bool isName(const std::string &text);

/// Reads and parses `path` and all that it imports (the library is part of the compiler), and reports unknown and
/// cyclic imports and names declared twice. Null when the file cannot be read; errors are in `diagnostics`.
std::unique_ptr<Program> parseProgram(SourceManager &sources, const std::string &path,
                                      Diagnostics &diagnostics) noexcept;
/// The same for a file that `sources` holds already.
std::unique_ptr<Program> parseProgram(SourceManager &sources, FileId file, Diagnostics &diagnostics) noexcept;

} // namespace echelon::frontend
