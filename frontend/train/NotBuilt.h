// What a message says of a part of the language that is not built yet.
#pragma once
#include "frontend/train/TrainPlan.h"

namespace echelon::frontend {

/// "recompute auto is not built yet; …", with what to write for now.
std::string messageOf(const NotBuilt &part);

} // namespace echelon::frontend
