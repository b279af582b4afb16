// Whole logical tensors from the pieces on all ranks, and pieces from whole tensors.
#pragma once

#include "runtime/program/Rank.h"
#include "runtime/program/Turns.h"

#include <functional>
#include <string>
#include <vector>

namespace echelon::runtime {

/// A tensor as it lies in an arena of this rank.
struct TensorPiece {
  std::string name;
  std::vector<std::string> axes; // declared order
  const Layout *layout;
  ElementType type;
  std::byte *data;
};

std::vector<TensorPiece> storedTensors(Rank &rank);

/// Collective over all ranks. Rank 0 gets the whole tensor, its axes in declared order, without padding, as consecutive
/// chunks of at most chunkBytes, so that it never holds more of it than that; other ranks send what rank 0 lacks, when
/// it is their turn. `take` may write a chunk to a slow disk; after the last tensor all ranks call turns.end().
void assemble(Rank &rank, Turns &turns, const TensorPiece &tensor,
              const std::function<void(const std::byte *, size_t)> &take, size_t chunkBytes = size_t(4) << 20);

/// The same where one thread can read the pieces of all ranks: `pieces` has where each rank holds its own. No word goes
/// to another rank. `take` returns what is wrong, which ends it, or an empty string.
std::string assembleHere(const std::vector<MeshAxis> &mesh, const TensorPiece &tensor,
                         const std::vector<const std::byte *> &pieces,
                         const std::function<std::string(const std::byte *, size_t)> &take,
                         size_t chunkBytes = size_t(4) << 20);

/// Fills this rank's piece from the whole tensor's bytes (declared order); padding is zero.
void takePiece(Rank &rank, const TensorPiece &tensor, const std::byte *whole);

} // namespace echelon::runtime
