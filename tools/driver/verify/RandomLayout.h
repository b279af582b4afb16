// Layouts by chance, for `verify --layouts`.
#pragma once
#include "tools/driver/compile/Compilation.h"

namespace echelon {

struct RandomLayout {
  std::string layout;       // as CompileOptions::layout
  int64_t microBatches = 1; // of the batch
  /// Samples a step come in multiples of this, whatever is split.
  int64_t batchMultiple = 1;
};

/// One or two mesh axes of 2 to 4 ranks in all, each with up to four of the model's axes, sometimes storing the
/// optimizer, sometimes padded, sometimes micro batches; a function of the seed. It may be one that the compiler
/// refuses.
RandomLayout randomLayout(const Compilation &elaborated, uint64_t seed);

} // namespace echelon
