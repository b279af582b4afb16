// x[…]: gathers, picks, slices, renames, splits, merges and expansions.
#pragma once
#include "frontend/ast/Ast.h"
#include "frontend/elaborate/Value.h"

namespace echelon::frontend {

class Elaborator;

/// A value with its brackets, one after the other.
Val bracketed(Elaborator &elab, const IndexExpr &e);

} // namespace echelon::frontend
