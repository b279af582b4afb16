// The library's text, which is part of the compiler.
#pragma once
#include <string>
#include <vector>

namespace echelon::frontend {

/// The text of `import NAME`, or null when the library has no such file.
const char *libraryText(const std::string &name);
/// What `import` knows by name.
std::vector<std::string> libraryNames();

} // namespace echelon::frontend
