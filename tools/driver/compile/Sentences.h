// What of a train block changes the mathematics, a sentence each: what `plan` names under `mathematics`.
#pragma once
#include "frontend/resolve/RunSettings.h"

namespace echelon {

/// What is rounded, and by what derivatives are scaled.
std::vector<std::string> sentencesOfPrecision(const frontend::RunSettings &settings);
/// `lamb`, `compress`, `sync`, `average`, `until`, `on nan`.
std::vector<std::string> sentencesOfClauses(const frontend::RunSettings &settings);

} // namespace echelon
