// What a layout says of the stages of a pipeline.
#pragma once
#include "frontend/resolve/RunSettings.h"
#include <set>

namespace echelon::frontend {

/// A mesh axis that splits the axis of a repeat, or those of repeats in a row: each of its coordinates has a part of
/// the iterations, a stage of a pipeline. Each entry of its list gets its counts.
void checkPipeline(MeshAxisSettings &mesh, const std::map<std::string, int64_t> &sizes,
                   const std::set<std::string> &repeats, RunSettings &settings, Diagnostics &diagnostics);

} // namespace echelon::frontend
