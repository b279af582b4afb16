// How text from outside (names of files, strings of a spec, its lines) is written in a program: nothing in it is read
// as code.
#pragma once
#include "llvm/ADT/StringRef.h"
#include <string>

namespace echelon::codegen {

/// Text as a C++ string: it reads back as the same bytes.
std::string quoted(llvm::StringRef text);

/// Text as it may come after `//`: on one line, printable, cut to `longest` bytes, and not going on in the next line.
std::string commented(llvm::StringRef text, size_t longest = llvm::StringRef::npos);

} // namespace echelon::codegen
