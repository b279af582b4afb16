// The random numbers of runtime/random/Philox.h on the device: functions of (seed, path, step, logical index), the same
// bits as the CPU's where they are uniform; normal numbers to rounding. Types: float, double.
#pragma once
#include "runtime/cuda/Device.h"
#include "runtime/random/Philox.h"

namespace echelon::cuda {

using runtime::Distribution;
using runtime::path_hash;

/// As runtime::SliceAxis. The axis of samples begins `*batchOffset` further on (`fromBatch`), which a captured graph
/// must read on the device.
struct SliceAxis {
  int64_t size;
  int64_t offset;
  int64_t stride;
  bool fromBatch = false;
};

/// Fills dst (at most 8 axes, the last one contiguous; no axes: one value). `step` and `batchOffset` lie on the device;
/// null: 0.
template <typename T>
void fill_random(Stream stream, T *dst, const uint64_t *step, uint64_t seed, uint64_t path, Distribution kind, double a,
                 double b, const SliceAxis *axes, int rank, const int64_t *batchOffset = nullptr);

template <typename T, size_t N>
void fill_random(Stream stream, T *dst, const uint64_t *step, uint64_t seed, uint64_t path, Distribution kind, double a,
                 double b, const SliceAxis (&axes)[N], const int64_t *batchOffset = nullptr) {
  fill_random(stream, dst, step, seed, path, kind, a, b, axes, static_cast<int>(N), batchOffset);
}

} // namespace echelon::cuda
