// What `plan --json` says of a sync policy's times, and of logs of other runs.
#pragma once
#include "tools/driver/compile/PolicyCost.h"
#include "tools/driver/history/TimeToTarget.h"
#include <nlohmann/json.hpp>

namespace echelon {

nlohmann::ordered_json policyJson(const PolicyCost &policy);
nlohmann::ordered_json historyJson(const TimeToTarget &found);

} // namespace echelon
