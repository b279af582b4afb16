// The memory that the ranks of one machine share: who is where, group channels, message rings, and each rank's arena.
//
// One anonymous mapping made before the ranks are forked (or their threads started), so every rank sees it at the same
// address and pointers into it mean the same everywhere; nothing has a name that could be left behind. Most of it is
// address space only: the kernel gives a page when a rank first writes to it.
#pragma once

#include "runtime/transport/RankStatus.h"

#include <atomic>
#include <cstddef>
#include <cstdint>

namespace echelon::runtime {

inline constexpr int kMaxGroups = 64;

struct SegmentHeader {
  std::atomic<int> failedRank{-1};  // the first rank that failed
  std::atomic<bool> hasTold{false}; // and has said why
  std::atomic<int> stopRequested{0};
  std::atomic<bool> lost{false}; // a rank was given up: it died, or it did not come
  std::atomic<SnapshotPhase> saving{SnapshotPhase::No};

  /// Whether the run, though it failed, lets the snapshot that is being written come to its end: what a rank found
  /// wrong is no reason to lose it. Not so where a rank was lost: the run may be about to start again.
  bool endsAfterSave() const { return saving.load() != SnapshotPhase::No && !lost.load(); }
};

/// One collective under way as one rank shows it to the others. A slot is used again only when every rank of the group
/// has left it, so all fields but the atomic ones are plain, published by `arrived`.
struct alignas(2 * kCacheLine) DirectSlot {
  static constexpr size_t kPayloadBytes = 1024; // 4 KiB: 1.2 us by pointers, 1.9 as copies
  static constexpr size_t kBesideBytes = 40;    // what comes with the flag, in its line

  std::atomic<uint64_t> arrived{0}; // number of the collective (from 1) that this slot shows
  uint64_t signature;               // kind, type, op, root, mode: equal on all ranks
  int64_t count;
  struct Buffers {
    const char *in;
    char *out;
  };
  union {
    Buffers buffers;
    char beside[kBesideBytes]; // of the smallest inputs, a copy
  };
  alignas(kCacheLine) char payload[kPayloadBytes];      // of small ones
  alignas(kCacheLine) std::atomic<uint64_t> claimed{0}; // chunks of this rank's share that someone has taken up
  std::atomic<int64_t> done{0};                         // and that are finished

  char *copyOf(size_t inBytes) { return inBytes <= kBesideBytes ? beside : payload; }
};

/// What one rank shows to the groups of one id.
struct DirectChannel {
  static constexpr int kSlots = 16;
  static constexpr int kStagingPieces = 4;
  static constexpr size_t kStagingPieceBytes = 1 << 20;

  alignas(2 * kCacheLine) std::atomic<uint64_t> left{0}; // this rank is through with the collectives up to this number
  DirectSlot slots[kSlots];
  alignas(4096) char staging[kStagingPieces][kStagingPieceBytes]; // copies of buffers that the peers cannot reach
};

/// Messages from one rank to another: a ring with one writer and one reader.
struct MessageCell {
  static constexpr size_t kBytes = 32 << 10;

  alignas(kCacheLine) std::atomic<uint64_t> full{0}; // number of the cell (from 1) once it is written
  int tag;
  int ack;             // which acknowledgement the sender waits for, where it only shows its buffer
  uint64_t total;      // bytes of the message
  uint64_t bytes;      // bytes in this cell
  const void *pointer; // the sender's buffer, else null
  char data[kBytes];
};
struct MessageRing {
  static constexpr int kCells = 8;
  static constexpr int kAcks = 32;

  alignas(kCacheLine) std::atomic<uint64_t> taken{0};
  alignas(kCacheLine) std::atomic<uint8_t> acks[kAcks];
  MessageCell cells[kCells];
};

class Segment {
public:
  /// For `ranks` ranks with arenas of `arenaBytes` each; ends the program if the address space is not to be had.
  Segment(int ranks, size_t arenaBytes);
  ~Segment();
  Segment(const Segment &) = delete;
  Segment &operator=(const Segment &) = delete;

  int ranks() const { return rankCount; }
  SegmentHeader &header() { return *reinterpret_cast<SegmentHeader *>(base); }
  RankStatus &status(int rank) { return reinterpret_cast<RankStatus *>(base + statusOffset)[rank]; }
  DirectChannel &channel(int group, int rank) {
    return reinterpret_cast<DirectChannel *>(base + channelOffset)[size_t(group) * rankCount + rank];
  }
  MessageRing &ring(int from, int to) {
    return reinterpret_cast<MessageRing *>(base + ringOffset)[size_t(from) * rankCount + to];
  }
  char *arena(int rank) { return base + arenaOffset + rank * arenaStride; }
  size_t arenaBytes() const { return arenaSize; }
  bool contains(const void *pointer) const {
    const char *at = static_cast<const char *>(pointer);
    return at >= base && at < base + mappedBytes && !(at >= ownBegin && at < ownEnd);
  }
  /// Of a rank that is a process: another mapping lies over a part of its arena, which is no part of the segment there.
  void exclude(const void *begin, size_t bytes) {
    ownBegin = static_cast<const char *>(begin);
    ownEnd = ownBegin + bytes;
  }

private:
  int rankCount;
  size_t arenaSize, arenaStride;
  size_t statusOffset, channelOffset, ringOffset, arenaOffset, mappedBytes;
  char *base = nullptr;
  const char *ownBegin = nullptr, *ownEnd = nullptr;
};

} // namespace echelon::runtime
