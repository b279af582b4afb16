// The policies of recomputation that a search over layouts tries.
#pragma once
#include "tools/driver/search/LayoutSpace.h"
#include "tools/driver/search/Trials.h"

namespace echelon {

/// From none to full; under `recompute auto` between them sets of values that repeats keep, each with all of the next:
/// those first that save most time for their bytes, as one pass of a rank whose tensors are split most has it. Empty:
/// the spec says which.
std::vector<frontend::RecomputeSettings> policiesOf(const LayoutSpace &space, Trials &trials);

} // namespace echelon
