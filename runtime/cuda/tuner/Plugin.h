// NCCL's interface of tuners, version 5, as far as it is used: NCCL's packages have no header for it.
#pragma once
#include <cstddef>
#include <cstdint>

namespace echelon::cuda {

/// The symbol ncclTunerPlugin_v5 of a plugin. Results are numbers of ncclResult_t.
struct TunerPlugin {
  const char *name;
  int (*init)(void **context, uint64_t comm, size_t ranks, size_t nodes, void *, void *, void *);
  /// `times`: one block, (algorithms, protocols); -1: not possible.
  int (*getCollInfo)(void *context, int collective, size_t bytes, int, float **times, int algorithms, int protocols,
                     int, int *channels);
  int (*finalize)(void *context);
};

} // namespace echelon::cuda
