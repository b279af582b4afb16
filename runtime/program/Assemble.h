// Whole logical tensors from the pieces on all ranks, and pieces from whole tensors.
#pragma once

#include "runtime/program/Rank.h"
#include "runtime/program/WriterTurns.h"

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
/// Whether this rank has any of a tensor: of what a stage of a pipeline alone holds, others have nothing, and something
/// else where it would lie.
bool holdsSome(Rank &rank, const Layout &layout);

/// Elements [low, high) of a whole tensor, its axes in declared order.
struct Chunk {
  int64_t low, high;
  int64_t count() const { return high - low; }
};
/// A tensor goes to a disk in chunks of about this size, so that nobody holds more of the whole than that.
constexpr size_t kChunkBytes = size_t(4) << 20;
std::vector<Chunk> chunksOf(const TensorPiece &tensor, size_t chunkBytes = kChunkBytes);

/// What one rank gives to a whole tensor. Every rank knows every layout, so that only values travel, in storage order.
class Share {
public:
  Share(const std::vector<MeshAxis> &mesh, const TensorPiece &tensor, int holder);
  /// How many it gives to each of the tensor's chunks; 0 also where another rank that holds the same gives them.
  std::vector<size_t> bytesFor(const std::vector<Chunk> &chunks) const;
  /// From the rank's piece to a row.
  void pack(Chunk chunk, const std::byte *piece, std::byte *packed) const;
  /// From such a row, or from the piece itself, to where it lies in the chunk.
  void unpack(Chunk chunk, const std::byte *packed, std::byte *whole) const;
  void place(Chunk chunk, const std::byte *piece, std::byte *whole) const;

private:
  template <class Act> void forEachRunIn(Chunk chunk, Act act) const;

  const std::vector<MeshAxis> &mesh;
  const TensorPiece &tensor;
  std::vector<int> coordinates;
  size_t width;
  bool gives;
};

/// Collective over all ranks. Rank 0 gets the whole tensor without padding, chunk by chunk; other ranks send what rank
/// 0 lacks, when it is their turn. `take` may write a chunk to a slow disk; after the last tensor all ranks call
/// turns.end().
void assemble(Rank &rank, WriterTurns &turns, const TensorPiece &tensor,
              const std::function<void(const std::byte *, size_t)> &take, size_t chunkBytes = kChunkBytes);

/// Fills this rank's piece from the whole tensor's bytes (declared order); padding is zero.
void takePiece(Rank &rank, const TensorPiece &tensor, const std::byte *whole);

} // namespace echelon::runtime
