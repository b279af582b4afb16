// What lies between sums over samples and a gradient that workers pack (ech-compress).
#pragma once
#include "llvm/ADT/StringRef.h"

namespace echelon {

/// Of a linear operation: the workers' mesh axes. Over these it takes and gives a rank's own part of a sum, where others
/// would take the sum; on one rank, a pass's part.
inline constexpr llvm::StringLiteral kStaysPending = "ech.stays_pending";

} // namespace echelon
