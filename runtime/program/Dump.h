// --dump: what another implementation needs to follow a run number by number, as npy files.
//
//   start/PATH.npy                 every stored tensor before the first step
//   step-000001/batch/INPUT.npy    the global batch of step 1; under a sync policy the mini-batches of the gradients
//                                  that update 1 took, in the order of the log's row
//   step-000001/random/PATH.npy    what dropout and survive kept, what random drew; where the chance to keep is not
//                                  known from numbers and positions alone: the uniform number that is compared with it
//                                  (not under a sync policy, where each mini-batch has its own)
//   step-000001/after/PATH.npy     with --dump-state: every stored tensor after the step
#pragma once

#include "runtime/program/Inputs.h"
#include "runtime/sync/Arrivals.h"

#include <string>

namespace echelon::runtime {

/// All collective; rank 0 writes.
void dumpStart(Rank &rank, const std::string &folder);
void dumpBatch(Rank &rank, const DataStream &stream, const std::string &folder);
void dumpMiniBatches(Rank &rank, const DataStream &stream, const Update &update, const std::string &folder);
void dumpState(Rank &rank, const std::string &folder);

} // namespace echelon::runtime
