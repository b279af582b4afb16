#include "tools/echelon/ChoiceJson.h"

#include "frontend/Diagnostics.h"

using nlohmann::ordered_json;

namespace echelon {

ordered_json choiceJson(const RecomputeChoice &choice) {
  auto one = [&](const RecomputeTrial &trial) -> ordered_json {
    return {{"policy", frontend::printable(trial.policy.text())},
            {"step_time_s", trial.seconds},
            {"bytes", trial.bytes},
            {"fits", choice.fits(trial)}};
  };
  ordered_json others = ordered_json::array();
  for (const RecomputeTrial &trial : choice.others)
    others.push_back(one(trial));
  return {{"limit_bytes", choice.limit ? ordered_json(choice.limit) : ordered_json()},
          {"chosen", one(choice.chosen)},
          {"others", others}};
}

ordered_json choiceJson(const SnapshotChoice &snapshots) {
  ordered_json made = {{"auto", snapshots.isAuto},
                       {"every_steps", snapshots.everySteps ? ordered_json(snapshots.everySteps) : ordered_json()},
                       {"bytes", snapshots.bytes}};
  if (!snapshots.lacks.empty()) {
    made["lacks"] = frontend::printable(snapshots.lacks);
    return made;
  }
  made["wait_s"] = snapshots.run.wait;
  made["write_s"] = snapshots.run.write;
  made["restart_s"] = snapshots.run.restart;
  made["between_failures_s"] = snapshots.run.between;
  made["goodput"] = snapshots.loss.goodput;
  made["lost_to_snapshots"] = snapshots.loss.snapshots;
  made["lost_to_failures"] = snapshots.loss.failures;
  if (snapshots.likelihood)
    made["failure_probability"] = *snapshots.likelihood;
  return made;
}

static ordered_json toJson(const PlannedLayout &layout) {
  ordered_json made = {{"layout", layout.layoutText()},        {"micro_batch", layout.batch / layout.microBatches},
                       {"micro_batches", layout.microBatches}, {"step_time_s", layout.seconds},
                       {"memory_bytes", layout.bytes},         {"terms", layout.terms}};
  if (layout.recompute)
    made["recompute"] = frontend::printable(layout.recompute->text());
  return made;
}

ordered_json choiceJson(const LayoutChoice &choice) {
  ordered_json others = ordered_json::array();
  for (const PlannedLayout &other : choice.runnersUp)
    others.push_back(toJson(other));
  return {{"chosen", toJson(choice.best)}, {"candidates", choice.counted},
          {"no_room", choice.without},     {"cut", choice.cut},
          {"refused", choice.refused},     {"fit", choice.fit},
          {"compiled", choice.asked},      {"search_s", choice.seconds},
          {"runners_up", others}};
}

} // namespace echelon
