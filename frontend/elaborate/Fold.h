// Functions of numbers that are known when compiling.
#pragma once
#include "ir/ech/Ech.h"
#include <optional>

namespace echelon::frontend {

/// The function of these numbers, in double precision; nothing where it is a derivative or an approximation, which no
/// number of a spec is made by.
std::optional<double> fold(ech::Function function, llvm::ArrayRef<double> x);

} // namespace echelon::frontend
