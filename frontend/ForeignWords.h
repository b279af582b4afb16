// Words that people bring from Python and from other frameworks.
#pragma once
#include <string>
#include <string_view>

namespace echelon::frontend {

/// What is written here for such a word: "; write …"; for any other word "".
std::string foreignWord(std::string_view word);

} // namespace echelon::frontend
