// What tests ask of the emulation of CUDA, and set.
#pragma once
#include <cstdint>
#include <string>

namespace echelon::cuda {

/// Pairs of launches that touch the same bytes, one of them writing, and that nothing orders; and the last one's text.
int racesFound();
std::string lastRace();
/// Forgets them, for a test that makes some on purpose.
void forgetRaces();

/// The order in which streams run from now on: see host/Streams.h. ECHELON_SEED sets the first.
void setSeed(uint64_t seed);
/// Whether a launch finds NaNs in all memory that it does not declare. ECHELON_ISOLATE=1 sets it at the start.
void setIsolation(bool isOn);

/// To which algorithm a tuner bound this thread's last all_reduce by NCCL, and to which protocol: "ring", "tree ll128";
/// empty: to none.
std::string algorithmOfLastCollective();

} // namespace echelon::cuda
