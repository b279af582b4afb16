// The plugin that the emulated NCCL asks which algorithm a collective takes: the one that NCCL_TUNER_PLUGIN names,
// looked for once, as the first communicator of the process is made. NCCL does so, too.
#pragma once
#include <cstddef>
#include <memory>

namespace echelon::cuda::host {

/// What the plugin keeps of a communicator of so many ranks that is made now; null: there is no plugin.
/// Throws std::runtime_error where the plugin refuses.
std::shared_ptr<void> tunerOf(int ranks);

/// Numbers of NCCL's (ncclFunc_t).
enum class Tuned { Broadcast, Reduce, AllGather, ReduceScatter, AllReduce };

/// Asks before a collective of so many bytes. What it left to choose from: algorithmOfLastCollective (Emulation.h).
void askTuner(const std::shared_ptr<void> &tuner, Tuned collective, size_t bytes);

} // namespace echelon::cuda::host
