// How unequal the mini-batches of a run were, from the trace that `run --trace` wrote of it.
#pragma once
#include "frontend/resolve/RunSettings.h"
#include "passes/cost/PolicyTimes.h"

#include <string>

namespace echelon {

struct MeasuredDelays {
  Delays delays;    ///< in units of the mean mini-batch
  std::string text; ///< "as measured in trace.json: …"
};

/// What ranks compute in a step, messages and the wait for them left out, is a draw of a mini-batch's time. Where ranks
/// differ more than their own steps do, and there are as many as workers, each has a constant; else times are shifted
/// exponential, of the mean and spread of all. False: `why` says what is wrong.
bool readDelays(const std::string &file, const frontend::RunSettings &settings, MeasuredDelays &found,
                std::string &why);

} // namespace echelon
