// The end of a run whose loss, or norm of gradients, is not finite.
#pragma once

#include "runtime/program/Rank.h"

#include <cstdint>
#include <string>

namespace echelon::runtime {

/// Collective: `value`, called `what`, is inf or nan on all ranks at `step`. Of all tensors that are not finite the
/// first is named, by the first rank that holds such an element, with what may help. `savedAt`: the step of the newest
/// snapshot; -1: there is none. `also` is said after it.
[[noreturn]] void failNotFinite(Rank &rank, const std::string &what, double value, int64_t step, int64_t savedAt,
                                const std::string &also);

} // namespace echelon::runtime
