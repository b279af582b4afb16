#include "runtime/transport/shared/Segment.h"

#include "runtime/launch/Fail.h"

#include <cerrno>
#include <cstring>
#include <new>
#include <sys/mman.h>

namespace echelon::runtime {

// The mapping is zero where nobody wrote, and only the few header pages are constructed, so that the large rest stays
// address space: zero must be the starting value of every atomic in channels and rings.
static_assert(std::atomic<uint64_t>::is_always_lock_free && std::atomic<const char *>::is_always_lock_free,
              "flags in shared memory must be lock-free");

static size_t roundUp(size_t bytes, size_t to) { return (bytes + to - 1) / to * to; }

Segment::Segment(int ranks, size_t arenaBytes) : rankCount(ranks), arenaSize(roundUp(arenaBytes, 4096)) {
  // Arenas start on huge page borders; with two MiB between them no two ranks write to one page.
  const size_t hugePage = 2 << 20;
  arenaStride = roundUp(arenaSize, hugePage);
  statusOffset = 4096;
  channelOffset = roundUp(statusOffset + ranks * sizeof(RankStatus), 4096);
  ringOffset = roundUp(channelOffset + size_t(ranks) * kMaxGroups * sizeof(DirectChannel), 4096);
  arenaOffset = roundUp(ringOffset + size_t(ranks) * ranks * sizeof(MessageRing), hugePage);
  mappedBytes = arenaOffset + ranks * arenaStride;

  void *mapping = mmap(nullptr, mappedBytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (mapping == MAP_FAILED)
    fail("cannot map " + std::to_string(mappedBytes >> 20) + " MiB of shared memory for " + std::to_string(ranks) +
         " ranks: " + std::strerror(errno));
  base = static_cast<char *>(mapping);
  if (arenaSize)
    madvise(base + arenaOffset, ranks * arenaStride, MADV_HUGEPAGE); // where the machine allows it for shared memory
  new (base) SegmentHeader();
  for (int rank = 0; rank < ranks; ++rank)
    new (&status(rank)) RankStatus();
}

Segment::~Segment() { munmap(base, mappedBytes); }

} // namespace echelon::runtime
