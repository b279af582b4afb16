#include "tools/echelon/HistoryJson.h"

#include "frontend/Diagnostics.h"

using nlohmann::ordered_json;

namespace echelon {

namespace {
ordered_json toJson(const ExpectedStep &step) {
  return {{"step_time_s", step.seconds},
          {"mini_batches", step.miniBatches},
          {"samples_per_s", step.samples / step.seconds},
          {"formula", step.formula}};
}

ordered_json orNull(const std::optional<double> &value) { return value ? ordered_json(*value) : ordered_json(); }

ordered_json toJson(const DegreePlan &row) {
  ordered_json made = {{"size", row.size}, {"batch", row.batch}};
  if (!row.refused.empty()) {
    made["refused"] = frontend::printable(row.refused);
    return made;
  }
  made["step_time_s"] = row.stepSeconds;
  made["steps"] = orNull(row.steps.steps);
  made["least_steps"] = orNull(row.steps.least);
  made["most_steps"] = orNull(row.steps.most);
  made["time_s"] = row.isReached() ? ordered_json(row.seconds()) : ordered_json();
  made["measured"] = !row.measuredIn.empty();
  made["extrapolated"] = row.isBeyond;
  return made;
}
} // namespace

ordered_json policyJson(const PolicyCost &policy) {
  return {{"policy", frontend::printable(policy.policy)},
          {"mini_batch_s", policy.miniBatch},
          {policy.isLocal ? "meeting_s" : "update_s", policy.update},
          {"mini_batches_in_turn", policy.inTurn},
          {"delays", frontend::printable(policy.delays)},
          {"staleness", policy.staleness},
          {"expected", toJson(policy.own)},
          {"every_step", policy.everyStep ? toJson(*policy.everyStep) : ordered_json()}};
}

ordered_json historyJson(const TimeToTarget &found) {
  ordered_json logs = ordered_json::array(), rows = ordered_json::array(), notes = ordered_json::array();
  for (size_t i = 0; i < found.records.size(); ++i) {
    const RunRecord &record = found.records[i];
    const auto at = planner::firstAt(record.curve, found.target);
    logs.push_back({{"file", frontend::printable(record.file)},
                    {"degree", record.curve.degree},
                    {"samples_a_step", record.samples},
                    {"steps", record.steps},
                    {"reached", at ? ordered_json(*at) : ordered_json()},
                    {"step_time_s", record.stepSeconds},
                    {"r2", found.fits[i].r2},
                    {"error", found.fits[i].error}});
  }
  for (const DegreePlan &row : found.rows)
    rows.push_back(toJson(row));
  for (const std::string &note : found.notes)
    notes.push_back(frontend::printable(note));
  return {{"until", frontend::printable(found.until)},
          {"axis", found.axis.empty() ? ordered_json() : ordered_json(frontend::printable(found.axis))},
          {"degree", found.isByWorkers ? "workers" : "samples"},
          {"floor", found.floor},
          {"logs", logs},
          {"rows", rows},
          {"chosen", toJson(found.rows[found.chosen])},
          {"another_batch", found.another ? toJson(found.rows[*found.another]) : ordered_json()},
          {"notes", notes}};
}

} // namespace echelon
