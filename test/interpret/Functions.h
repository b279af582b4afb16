// What the functions of `ech.map` are, for one element.
#pragma once
#include "ir/ech/Build.h"

namespace echelon::interpret {

/// x: the operands, and whatever else up to three numbers. toInteger: the result's type has no fractions. What is made
/// of NaN is NaN, but for comparisons: NaN is where a rank holds nothing, and a read of it shows.
double apply(ech::Function f, const double *x, bool toInteger);

} // namespace echelon::interpret
