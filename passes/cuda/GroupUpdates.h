// Rules of the update, and sums of squares, that one launch can do.
#pragma once
#include "ir/rt/Rt.h"

namespace echelon {

/// Puts them together: rt.together. A launch takes longer than the update of a bias.
void groupUpdates(rt::FunctionOp function);

} // namespace echelon
