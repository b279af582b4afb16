// Operators: of what is known when compiling they make what is known, of tensors they are element-wise functions.
#pragma once
#include "frontend/ast/Ast.h"
#include "frontend/elaborate/Value.h"

namespace echelon::frontend {

class Elaborator;

/// A number that was worked out when compiling; reports one that is infinite or none.
Val finite(Elaborator &elab, const Number &n, SourceRange range);

/// `lifted`: as the operation of an outer(…).
Val arithmetic(Elaborator &elab, const ArithmeticExpr &e, bool lifted);
Val power(Elaborator &elab, const PowerExpr &e, bool lifted);
Val compare(Elaborator &elab, const CompareExpr &e, bool lifted);
Val logic(Elaborator &elab, const LogicExpr &e, bool lifted);

} // namespace echelon::frontend
