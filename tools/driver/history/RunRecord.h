// What the log of a run says of how it converged.
#pragma once
#include "frontend/resolve/RunSettings.h"
#include "planner/convergence/Convergence.h"

#include <string>

namespace echelon {

struct RunRecord {
  std::string file;
  planner::RunCurve curve; ///< of the metric that `until` looks at; its degree is that of the run's mathematics
  int64_t samples = 0;     ///< of a step
  int64_t gradients = 0;   ///< of an update of workers that arrive; 0: there are no such
  int64_t workers = 0;     ///< 0: the log does not tell
  int64_t steps = 0;       ///< that the run made
  double stepSeconds = 0;  ///< the median of the second half
};

/// What tells runs apart that reach a target after other numbers of steps: under `sync every step` the samples of a
/// step, whatever the ranks; under a policy the workers.
bool isByWorkers(const frontend::RunSettings &settings);
double degreeOf(const frontend::RunSettings &settings);

/// The evaluation that `until` looks at: the unnamed one, else the first. Null: there is none.
const frontend::EvaluationSettings *evaluationOf(const frontend::RunSettings &settings);

planner::Target targetOf(const frontend::UntilSettings &until);

/// Reads LOG, or WORKERS=LOG, which `run --log` wrote of a run of this train block, but for its degree or batch. False:
/// `why` says what is wrong.
bool readRecord(const std::string &argument, const frontend::RunSettings &settings, RunRecord &record,
                std::string &why);

} // namespace echelon
