// How much of what is offloaded is in memory at a time: what the compiler plans, and the program does.
#pragma once

#include <algorithm>
#include <cstdint>

namespace echelon::runtime {

/// Offloaded state begins and ends at a multiple of this: a page, whatever the machine's.
constexpr int64_t kOffloadAlignment = int64_t(64) << 10;
/// Of all offloaded rows that an update works on, this many bytes are a piece.
constexpr int64_t kPieceBytes = int64_t(16) << 20;

/// Positions of a piece where one position of all offloaded rows takes `bytes`.
constexpr int64_t positionsOfPiece(int64_t bytes) { return std::max<int64_t>(kPieceBytes / bytes / 1024, 1) * 1024; }

} // namespace echelon::runtime
