// How much memory this process holds beyond the arenas that the compiler planned, and the data.
#pragma once

#include "runtime/program/Rank.h"

#include <cstdint>

namespace echelon::runtime {

/// Resident bytes of code, libraries and heap, without unpacked data, which all ranks of a machine share. Where ranks
/// are processes over shared memory, the arenas lie in that memory and are left out as such, and this is what is
/// resident now; elsewhere it is the most so far. Where they are threads, all ranks' arenas and heap are in one
/// process, and this is a rank's share. -1: unknown, where there is no /proc.
int64_t residentBytesBeyond(const Rank &rank);

/// What is wrong when the arenas of this machine's ranks are more than its memory; else empty. Without this the run
/// would be killed without a word when it first touches what is not there.
std::string refuseBeyondMachine(const Program &program, int ranksHere);

/// Whether there is memory for copies of the state too, which snapshots are written from while training goes on.
bool hasRoomForCopies(const Program &program, int ranksHere);

/// Collective: what the run tells of its memory at its end. `copy`: the bytes of the snapshot's copy of the state.
std::string memoryLine(Rank &rank, size_t copy);

} // namespace echelon::runtime
