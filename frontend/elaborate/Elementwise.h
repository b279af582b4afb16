// Element-wise functions of operands whose axes meet.
#pragma once
#include "frontend/elaborate/Value.h"

namespace echelon::frontend {

class Elaborator;

/// The function of these operands, at least one of them a tensor. `spelling` is how the spec writes it; `lifted` says
/// that it is the operation of an outer(…).
Val apply(Elaborator &elab, ech::Function f, llvm::ArrayRef<Val> operands, SourceRange range,
          const std::string &spelling, bool lifted);

} // namespace echelon::frontend
