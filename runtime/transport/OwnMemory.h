// Zeroed memory of one process, for what Transport::allocate hands out where nothing is shared.
#pragma once

#include <algorithm>
#include <cstddef>
#include <sys/mman.h>
#include <utility>
#include <vector>

namespace echelon::runtime {

class OwnMemory {
public:
  OwnMemory() = default;
  OwnMemory(const OwnMemory &) = delete;
  ~OwnMemory() {
    for (auto [block, bytes] : blocks)
      munmap(block, bytes);
  }

  /// 64 byte aligned (a page, in fact), zero, on huge pages where they fit; null if there is no memory. The last `tail`
  /// bytes are addresses alone: no limit counts them.
  void *allocate(size_t bytes, size_t tail = 0) {
    bytes = std::max<size_t>(64, bytes);
    void *block = mmap(nullptr, bytes, tail ? PROT_NONE : PROT_READ | PROT_WRITE,
                       MAP_PRIVATE | MAP_ANONYMOUS | (tail ? MAP_NORESERVE : 0), -1, 0);
    if (block == MAP_FAILED)
      return nullptr;
    if (tail && mprotect(block, bytes - tail, PROT_READ | PROT_WRITE) != 0) {
      munmap(block, bytes);
      return nullptr;
    }
    if (bytes >= size_t(2) << 20)
      madvise(block, bytes, MADV_HUGEPAGE);
    blocks.push_back({block, bytes});
    return block;
  }

private:
  std::vector<std::pair<void *, size_t>> blocks;
};

} // namespace echelon::runtime
