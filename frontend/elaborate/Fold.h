// Element-wise functions: their names, and what they are of numbers that are known when compiling.
#pragma once
#include "ir/ech/Ech.h"
#include <map>
#include <optional>
#include <string>

namespace echelon::frontend {

/// The function of these numbers, in double precision; nothing where it is a derivative or an approximation, which no
/// number of a spec is made by.
std::optional<double> fold(ech::Function function, llvm::ArrayRef<double> x);

/// The functions of one value, by their names in the language. `fold` knows each.
const std::map<std::string, ech::Function> &unaryFunctions();

} // namespace echelon::frontend
