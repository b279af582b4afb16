// The syntax tree as text: one line a statement or clause, expressions in prefix form, so that precedence is seen.
#pragma once
#include "frontend/ast/Ast.h"

namespace echelon::frontend {

/// The spec's own file and what it imports by path; the library is left out.
std::string dump(const Program &program, const SourceManager &sources);
/// `(+ (* a b) (call relu x))`
std::string dump(const Expr &expr);

} // namespace echelon::frontend
