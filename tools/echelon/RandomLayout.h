// Layouts by chance, for `verify --layouts`.
#pragma once
#include "tools/echelon/Compilation.h"

namespace echelon {

/// One or two mesh axes of 2 to 4 ranks in all, each with up to four of the model's axes, sometimes storing the
/// optimizer, sometimes micro batches; a function of the seed. It may be one that the compiler refuses.
LayoutChoice randomLayout(const Compilation &elaborated, uint64_t seed);

} // namespace echelon
