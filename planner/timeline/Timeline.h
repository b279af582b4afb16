// How long a step takes on a machine. A rank's device does one call after the other; the host issues them. Messages
// over the same mesh axes come one after the other, in a queue that runs beside compute from where they are started to
// where they are waited for; queues on one link share its rate. Stages of a pipeline are simulated turn by turn, each
// waiting for what its neighbors send.
#pragma once
#include "planner/machine/Machine.h"
#include "planner/timeline/Step.h"

namespace echelon::planner {

/// How the host and the device work together.
struct Issue {
  bool isAhead = true; ///< the host issues calls while the device still works, as of a GPU; else each call takes both
  double mostOverlap = 1; ///< part of a started message that runs beside compute at most: 0 where cores move it
};

struct StepTime {
  double seconds = 0;
  std::vector<double> terms; ///< seconds of each term of the step, the mean over stages; they sum up to `seconds`
  std::vector<double> busy;  ///< of each stage of a pipeline: seconds that it works in its turns
  double bubble = 0;         ///< idle over working time of a pipeline's stages, all together; 0 without one
  std::vector<double> workSeconds, messageSeconds; ///< of one of each of the step's, alone
};

/// `record`: gets what is done when; null: nobody wants to know.
StepTime timeOf(const Step &step, const Machine &machine, Issue issue, Record *record = nullptr);

} // namespace echelon::planner
