// What each worker keeps for itself (moments under `local`, residuals of a compression), taken over from a snapshot of
// another number of workers: all start from the mean.
#pragma once

#include "runtime/program/Assemble.h"
#include "runtime/program/Program.h"
#include "runtime/snapshot/Snapshot.h"

namespace echelon::runtime {

/// Whether a tensor of a snapshot is the program's but for the workers that it is of: how many there are, or of how
/// many a mean is made. In the snapshot, in the program, or in both, axes of workers come first.
bool isOfOtherWorkers(const Program &program, const Snapshot &snapshot, const SafetensorsFile::Tensor &found,
                      const Stored &stored);

/// Fills this rank's piece with the mean over the snapshot's workers; of a residual times (workers / k) of the snapshot
/// over (workers / k) of the program: an update adds all workers' residuals, divided by its k gradients, and so takes
/// what it would have.
void takeMean(Rank &rank, const Snapshot &snapshot, const SafetensorsFile::Tensor &found, const Stored &stored,
              const TensorPiece &piece);

} // namespace echelon::runtime
