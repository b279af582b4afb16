// What `plan --json` says of what the spec left open: recomputation, snapshots, the layout.
#pragma once
#include "tools/driver/compile/RecomputeChoice.h"
#include "tools/driver/compile/SnapshotChoice.h"
#include "tools/driver/search/LayoutChoice.h"
#include <nlohmann/json.hpp>

namespace echelon {

nlohmann::ordered_json choiceJson(const RecomputeChoice &choice);
nlohmann::ordered_json choiceJson(const SnapshotChoice &snapshots);
nlohmann::ordered_json choiceJson(const LayoutChoice &choice);

} // namespace echelon
