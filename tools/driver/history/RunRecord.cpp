#include "tools/driver/history/RunRecord.h"

#include "tools/driver/history/JsonField.h"
#include "llvm/ADT/StringRef.h"

#include <algorithm>
#include <cerrno>
#include <cmath>
#include <cstring>
#include <fstream>

namespace echelon {

using frontend::RunSettings;

bool isByWorkers(const RunSettings &settings) { return settings.sync.has_value(); }

double degreeOf(const RunSettings &settings) { return double(settings.sync ? settings.sync->workers : settings.batch); }

/// What `<` and `>` leave out is no target: the next number is.
planner::Target targetOf(const frontend::UntilSettings &until) {
  const bool isBelow = until.comparison.front() == '<', isStrict = until.comparison.size() == 1;
  const double end = isBelow ? -HUGE_VAL : HUGE_VAL;
  return {isStrict ? std::nextafter(until.value, end) : until.value, isBelow};
}

const frontend::EvaluationSettings *evaluationOf(const RunSettings &settings) {
  for (const frontend::EvaluationSettings &evaluation : settings.evaluations)
    if (evaluation.name.empty())
      return &evaluation;
  return settings.evaluations.empty() ? nullptr : &settings.evaluations.front();
}

namespace {
/// Rows as they come.
struct Reader {
  const std::string &metric, evaluation;
  RunRecord &record;
  std::vector<double> seconds, samples;
  int64_t lastWorker = -1;

  void take(const nlohmann::json &row) {
    const int64_t step = countIn(row, "step");
    if (step < 1)
      return;
    if (row.contains("eval_time_s")) {
      const double value = numberIn(row, metric.c_str());
      if (textIn(row, "eval") == evaluation && std::isfinite(value) &&
          (record.curve.points.empty() || record.curve.points.back().first < step))
        record.curve.points.emplace_back(step, value);
      return;
    }
    const double took = numberIn(row, "step_time_s"), all = took * numberIn(row, "samples_per_s");
    if (!(took > 0 && all >= 0.5 && all < 1e12))
      return;
    record.steps = std::max(record.steps, step);
    seconds.push_back(took);
    samples.push_back(all);
    if (auto workers = row.find("workers"); workers != row.end() && workers->is_array()) {
      record.gradients = int64_t(workers->size());
      for (const nlohmann::json &worker : *workers)
        if (worker.is_number_integer() && worker.get<double>() < 1e6)
          lastWorker = std::max(lastWorker, worker.get<int64_t>());
    }
  }

  void finish() {
    if (!samples.empty()) {
      std::sort(samples.begin(), samples.end());
      record.samples = int64_t(std::llround(samples[samples.size() / 2]));
      std::vector<double> half(seconds.begin() + int64_t(seconds.size() / 2), seconds.end());
      std::sort(half.begin(), half.end());
      record.stepSeconds = half[half.size() / 2];
    }
    if (lastWorker >= 0 && record.workers == 0)
      record.workers = lastWorker + 1;
  }
};

/// What a log must have; empty: it has.
std::string lacksOf(const RunRecord &record, const RunSettings &settings) {
  const std::string &metric = settings.until->metric;
  const size_t points = record.curve.points.size(), wanted = planner::Convergence::kLeastPoints;
  if (record.steps == 0)
    return "it is no log of a run: no row has samples_per_s";
  if (points < wanted)
    return "it has " + std::to_string(points) + (points == 1 ? " evaluation" : " evaluations") + " with " + metric +
           ", of which " + std::to_string(wanted) + " are needed; evaluate more often";
  const auto isAsFirst = [&](const auto &point) { return point.second == record.curve.points.front().second; };
  if (std::all_of(record.curve.points.begin(), record.curve.points.end(), isAsFirst))
    return metric + " is the same in all of its evaluations, so nothing can be told from it";
  return "";
}

/// Whether the run was of the spec's mathematics but for the degree; empty: it was.
std::string differsFrom(const RunSettings &settings, const RunRecord &record) {
  if (!settings.sync)
    return record.gradients ? "its rows have workers, as under a sync policy, and the spec is `sync every step`" : "";
  const frontend::SyncSettings &sync = *settings.sync;
  if (sync.isLocal() ? record.gradients != 0 : record.gradients != sync.k)
    return sync.isLocal() || record.gradients == 0 ? std::string("its rows have ") + (record.gradients ? "" : "no ") +
                                                         "workers that arrive, and the spec is of sync " + sync.text()
                                                   : "its updates are of " + std::to_string(record.gradients) +
                                                         (record.gradients == 1 ? " gradient" : " gradients") +
                                                         ", and those of the spec of " + std::to_string(sync.k);
  if (record.workers == 0)
    return "it does not tell how many workers there were; say it, as in 4=" + record.file;
  const int64_t batch = sync.isLocal() ? record.samples : record.samples * record.workers / sync.k;
  if (batch != settings.batch)
    return "its batch is " + std::to_string(batch) + ", that of the spec " + std::to_string(settings.batch) +
           ": under a policy only the workers may differ";
  return "";
}
} // namespace

bool readRecord(const std::string &argument, const RunSettings &settings, RunRecord &record, std::string &why) {
  llvm::StringRef file = argument;
  const auto [count, rest] = file.split('=');
  if (int64_t workers = 0; !rest.empty() && !count.getAsInteger(10, workers) && workers > 0 && workers < 1000000) {
    record.workers = workers;
    file = rest;
  }
  record.file = file.str();
  if (record.workers && !settings.sync) {
    why = "the workers of a log count under a sync policy alone: under `sync every step` its batch tells, whatever the "
          "ranks";
    return false;
  }
  std::ifstream stream(record.file);
  if (!stream) {
    why = std::strerror(errno);
    return false;
  }
  const frontend::EvaluationSettings *evaluation = evaluationOf(settings);
  Reader reader = {settings.until->metric, evaluation ? evaluation->name : "", record, {}, {}}; // its name in rows
  for (std::string line; std::getline(stream, line);) {
    const auto row = nlohmann::json::parse(line, nullptr, false);
    if (row.is_object())
      reader.take(row);
  }
  reader.finish();
  why = lacksOf(record, settings);
  if (why.empty())
    why = differsFrom(settings, record);
  record.curve.degree = double(settings.sync ? record.workers : record.samples);
  return why.empty();
}

} // namespace echelon
