// Which degree of parallelism meets `until` soonest: the steps that it takes, from the logs of other runs, by the
// seconds of a step, from the plan. After Pan et al., Hemingway, 2017.
#pragma once
#include "tools/driver/compile/Compilation.h"
#include "tools/driver/history/RunRecord.h"

#include <optional>
#include <string>
#include <vector>

namespace echelon {

/// One degree, or batch, and what the target takes under it.
struct DegreePlan {
  int64_t size = 0;    ///< of the mesh axis that is open; 0: none is
  int64_t batch = 0;   ///< of the run
  double degree = 1;   ///< of its mathematics
  std::string refused; ///< why there is no such plan; empty: there is
  double stepSeconds = 0;
  planner::StepsTo steps;
  std::vector<std::string> measuredIn; ///< logs of this degree that reached the target; none: the fit says it
  bool isBeyond = false;               ///< the degree is no log's, nor between those of logs

  bool isUnknown = false; ///< and the logs are all of one degree

  bool isReached() const { return refused.empty() && steps.steps.has_value(); }
  double seconds() const { return stepSeconds * steps.steps.value_or(0); }
};

struct TimeToTarget {
  std::string until; ///< "accuracy > 0.93"
  std::string axis;  ///< the mesh axis whose size is open; empty: none is
  bool isByWorkers = false;
  int64_t batch = 0; ///< of the spec
  planner::Target target;
  double floor = 0; ///< of the fit
  std::vector<RunRecord> records;
  std::vector<planner::CurveFit> fits; ///< of each record
  std::vector<DegreePlan> rows;        ///< of the spec's batch, then of the other batches of the logs
  size_t chosen = 0;                   ///< among them; of the spec's batch
  std::optional<size_t> next;          ///< the second best of these
  std::optional<size_t> another;       ///< a row of another batch that is faster still
  std::vector<std::string> notes;      ///< what the figures are worth

  std::string text() const; ///< for people
  /// What the command line would say to have the chosen row: "layout.dp=4"; empty: nothing is open.
  std::string setting() const;
};

/// Of a spec with `until`; each degree is compiled and costed as `plan` does. Nothing: `why` says what is wrong, or it
/// has been told.
std::optional<TimeToTarget> timeToTarget(const CompileOptions &options, const std::vector<std::string> &logs,
                                         std::string &why);

} // namespace echelon
