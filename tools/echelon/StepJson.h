// What `plan --json` says of a step's time.
#pragma once
#include "tools/driver/compile/StepCost.h"
#include <nlohmann/json.hpp>

namespace echelon {

/// Seconds by what they are spent on; they sum up to the step's.
nlohmann::ordered_json timeJson(const StepCost &cost);

/// What was costed: each distinct call and message, and how often each stage does them. Enough to cost it anew under
/// other constants.
nlohmann::ordered_json workJson(const planner::Step &step, const planner::StepTime &time);

} // namespace echelon
