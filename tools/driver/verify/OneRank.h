// What many ranks are compared with.
#pragma once
#include "tools/driver/compile/Compilation.h"

namespace echelon {

/// Options of the same run on one rank, which keeps all that derivatives read, and works one after the other for the
/// workers whose gradients are compressed, or for so many of a sync policy (0: there is none).
inline CompileOptions oneRankFor(CompileOptions options, const std::optional<CompileOptions::Workers> &workers,
                                 int64_t policyWorkers) {
  options.oneRank = options.keepsAll = true;
  options.wholeBatch = !workers;
  options.microBatches = workers ? workers->all * workers->microBatches : 0;
  options.workers = workers;
  options.policyWorkers = policyWorkers;
  return options;
}

} // namespace echelon
