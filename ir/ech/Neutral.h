// What changes nothing in a reduction.
#pragma once
#include "ir/ech/Ech.h"

namespace echelon::ech {

/// 0; of a maximum or minimum the least or largest value of an element type.
double neutralOf(Reduction kind, bool isFloat);

} // namespace echelon::ech
