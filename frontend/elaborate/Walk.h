// Questions about syntax that are asked before a body is elaborated.
#pragma once
#include "frontend/ast/Ast.h"
#include <functional>
#include <map>
#include <set>

namespace echelon::frontend {

/// Names that the body assigns, also in branches and loops inside it, each with its first place.
std::map<std::string, SourceRange> namesAssigned(const Body &body);

/// Names of values that are in `body` after byte `offset`.
std::set<std::string> namesReadAfter(const Body &body, uint32_t offset);

/// The statements of the body, also in branches and loops inside it, in source order.
void forEachStatement(const Body &body, const std::function<void(const Statement &)> &visit);

/// What each unnamed call of a block is called: `layernorm`, `layernorm_2` in source order, counted apart in the body
/// of each `repeat`, whose axis is in the path; `isBlock` tells blocks from built-in functions.
std::map<const CallExpr *, std::string> nameCalls(const Body &body, std::function<bool(const Path &)> isBlock);

} // namespace echelon::frontend
