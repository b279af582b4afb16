#include "runtime/snapshot/SnapshotTransfer.h"

namespace echelon::runtime {

constexpr int kTag = (1 << 19) + 2; // apart from those of groups, assemble and WriterTurns

size_t SnapshotTransfer::ChunkParts::bytes() const {
  size_t sum = 0;
  for (const Part &part : parts)
    sum += part.bytes;
  return sum;
}

SnapshotTransfer::SnapshotTransfer(Transport &t, const std::vector<MeshAxis> &m, const std::vector<TensorPiece> &pieces,
                                   const std::vector<size_t> &order)
    : transport(t), mesh(m), tensors(pieces) {
  for (const size_t i : order) {
    const std::vector<Chunk> chunks = chunksOf(tensors[i]);
    std::vector<ChunkParts> ofTensor;
    for (const Chunk chunk : chunks)
      ofTensor.push_back({i, chunk, {}});
    for (int from = 1; from < transport.size(); ++from) {
      if (transport.rank() != 0 && transport.rank() != from)
        continue;
      const std::vector<size_t> bytes = Share(mesh, tensors[i], from).bytesFor(chunks);
      for (size_t c = 0; c < chunks.size(); ++c)
        if (bytes[c])
          ofTensor[c].parts.push_back({from, bytes[c]});
    }
    for (ChunkParts &letter : ofTensor)
      if (!letter.parts.empty())
        letters.push_back(std::move(letter));
  }
}

void SnapshotTransfer::begin() {
  moved = worked = 0;
  for (Slot &slot : slots)
    slot.isFull = false;
}

void SnapshotTransfer::start(Slot &slot, const ChunkParts &letter) {
  slot.data.resize(letter.bytes());
  size_t at = 0;
  for (const ChunkParts::Part &part : letter.parts) {
    std::byte *data = slot.data.data() + at;
    slot.requests.push_back(transport.rank() == 0 ? transport.ireceive(part.from, data, part.bytes, kTag, "save")
                                                  : transport.isend(0, data, part.bytes, kTag, "save"));
    at += part.bytes;
  }
}

bool SnapshotTransfer::advance() {
  const bool receives = transport.rank() == 0;
  while (moved < letters.size()) {
    // the oldest that is under way, and the one after it
    for (size_t next = moved; next < std::min(moved + slots.size(), letters.size()); ++next) {
      Slot &slot = slots[next % slots.size()];
      if (!isStarted(slot) && is(slot, !receives))
        start(slot, letters[next]);
    }
    Slot &slot = slots[moved % slots.size()];
    if (!isStarted(slot))
      return false;
    while (!slot.requests.empty() && transport.test(slot.requests.back()))
      slot.requests.pop_back();
    if (isStarted(slot))
      return false;
    set(slot, receives);
    ++moved;
  }
  return true;
}

bool SnapshotTransfer::is(const Slot &slot, bool isFull) {
  const std::lock_guard<std::mutex> lock(mutex);
  return slot.isFull == isFull;
}

void SnapshotTransfer::await(const Slot &slot, bool isFull) {
  std::unique_lock<std::mutex> lock(mutex);
  changed.wait(lock, [&] { return slot.isFull == isFull; });
}

void SnapshotTransfer::set(Slot &slot, bool isFull) {
  {
    const std::lock_guard<std::mutex> lock(mutex);
    slot.isFull = isFull;
  }
  changed.notify_all();
}

void SnapshotTransfer::pack(const std::vector<const std::byte *> &pieces, const std::function<void()> &after) {
  for (const ChunkParts &letter : letters) {
    Slot &slot = slots[worked++ % slots.size()];
    await(slot, false);
    slot.data.resize(letter.bytes());
    Share(mesh, tensors[letter.tensor], transport.rank()).pack(letter.chunk, pieces[letter.tensor], slot.data.data());
    set(slot, true);
    after();
  }
}

void SnapshotTransfer::take(size_t tensor, Chunk chunk, std::byte *whole) {
  if (worked == letters.size() || letters[worked].tensor != tensor || letters[worked].chunk.low != chunk.low)
    return; // rank 0 has all of it
  const ChunkParts &letter = letters[worked];
  Slot &slot = slots[worked++ % slots.size()];
  await(slot, true);
  const std::byte *data = slot.data.data();
  for (const ChunkParts::Part &part : letter.parts) {
    Share(mesh, tensors[tensor], part.from).unpack(chunk, data, whole);
    data += part.bytes;
  }
  set(slot, false);
}

} // namespace echelon::runtime
