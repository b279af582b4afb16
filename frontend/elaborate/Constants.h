// Numbers and truth values that are known when compiling, as values of the step.
#pragma once
#include "frontend/elaborate/Scopes.h"
#include "ir/ech/Build.h"

namespace echelon::frontend {

/// A number or truth value as a tensor without axes: of integers where `integer` and the number is one.
mlir::Value constantLike(Scopes &scopes, ech::Build &build, const Val &v, bool integer, SourceRange range);
/// Reports a number that no element of a tensor holds: one beyond its range, or so small that it would become 0.
void checkElement(Scopes &scopes, const ech::Build &build, const Number &n, SourceRange range);

} // namespace echelon::frontend
