// How much memory this process holds beyond the arenas that the compiler planned, and the data.
#pragma once

#include "runtime/program/Rank.h"

#include <cstdint>

namespace echelon::runtime {

/// Resident bytes of code, libraries and heap, without unpacked data, which all ranks of a machine share. Where ranks
/// are processes over shared memory, the arenas lie in that memory and are left out as such; where they are threads,
/// all ranks' arenas and heap are in one process, and this is a rank's share.
int64_t residentBytesBeyond(const Rank &rank);

} // namespace echelon::runtime
