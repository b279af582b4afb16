// Start values of stored tensors, from their Inits.
#pragma once

#include "runtime/program/Rank.h"

namespace echelon::runtime {

/// Fills every stored tensor's piece. Values depend on the seed, the path and the logical index; padding is zero.
void fillStartValues(Rank &rank);
/// One of them.
void fillStartValue(Rank &rank, const Stored &stored);

} // namespace echelon::runtime
