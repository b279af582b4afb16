// Ranks' copies of a snapshot's state on their way to rank 0, chunk by chunk, while training goes on: for ranks whose
// memory rank 0 cannot read.
//
// A thread beside each rank packs chunks, and one beside rank 0 takes them. The rank's own thread, which alone may
// speak to the transport, sends and receives what those have ready, whenever it waits for something (Background). Two
// chunks are on their way at a time.
#pragma once

#include "runtime/program/Assemble.h"
#include "runtime/transport/Transport.h"

#include <array>
#include <condition_variable>
#include <functional>
#include <mutex>
#include <vector>

namespace echelon::runtime {

class SnapshotTransfer final : public Background {
public:
  /// Of the same tensors, in the same order, on each rank.
  SnapshotTransfer(Transport &transport, const std::vector<MeshAxis> &mesh, const std::vector<TensorPiece> &tensors,
                   const std::vector<size_t> &order);

  // The rank's own thread.
  /// A snapshot's state is copied, or about to be; the previous one has finished.
  void begin();
  /// Goes on as far as possible without waiting; true when all has been sent, or is here.
  bool advance() override;

  // The thread beside it.
  /// Of another rank than 0: packs all that it gives, from its copies of the tensors' pieces; `after` after each part.
  void pack(const std::vector<const std::byte *> &pieces, const std::function<void()> &after);
  /// Of rank 0, chunk by chunk in the order: what the other ranks give goes to its places in `whole`.
  void take(size_t tensor, Chunk chunk, std::byte *whole);

private:
  /// What ranks give to one chunk.
  struct ChunkParts {
    struct Part {
      int from;
      size_t bytes;
    };
    size_t tensor;
    Chunk chunk;
    std::vector<Part> parts; // one after the other
    size_t bytes() const;
  };
  struct Slot {
    std::vector<std::byte> data;
    std::vector<Request> requests; // of the rank's own thread, while it is under way
    bool isFull = false;           // packed, not sent yet; or received, not taken yet
  };
  void start(Slot &slot, const ChunkParts &letter);
  bool isStarted(const Slot &slot) const { return !slot.requests.empty(); }
  bool is(const Slot &slot, bool isFull);
  /// Waits until it is, or is no longer, full; it is the waiting thread's then, until that sets it.
  void await(const Slot &slot, bool isFull);
  void set(Slot &slot, bool isFull);

  Transport &transport;
  const std::vector<MeshAxis> &mesh;
  const std::vector<TensorPiece> &tensors;
  std::vector<ChunkParts> letters; // those that this rank sends or receives
  std::array<Slot, 2> slots;       // of letter n: n % 2
  size_t moved = 0;                // letters that the rank's own thread is through with
  size_t worked = 0;               // and that the thread beside it is
  std::mutex mutex;                // of isFull
  std::condition_variable changed;
};

} // namespace echelon::runtime
