#include "runtime/transport/Segment.h"

#include "runtime/launch/Fail.h"

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <new>
#include <sys/mman.h>

namespace echelon::runtime {

// The mapping is zero where nobody wrote, and only the few header pages are constructed, so that the large rest stays
// address space: zero must be the starting value of every atomic in channels and rings.
static_assert(std::atomic<uint64_t>::is_always_lock_free && std::atomic<const char *>::is_always_lock_free,
              "flags in shared memory must be lock-free");

static size_t roundUp(size_t bytes, size_t to) { return (bytes + to - 1) / to * to; }

bool RankStatus::isStopped() const {
  const int pid = process.load(std::memory_order_relaxed);
  if (pid <= 0)
    return false;
  std::FILE *file = std::fopen(("/proc/" + std::to_string(pid) + "/stat").c_str(), "r");
  if (!file)
    return false;
  char text[256] = {};
  const size_t read = std::fread(text, 1, sizeof(text) - 1, file);
  std::fclose(file);
  const char *behindName = read ? std::strrchr(text, ')') : nullptr;
  return behindName && behindName[1] == ' ' && (behindName[2] == 'T' || behindName[2] == 't');
}

double StepTimes::median() const {
  auto sorted = seconds;
  const auto end = sorted.begin() + std::clamp<int64_t>(begun - 1, 0, sorted.size()),
             middle = sorted.begin() + (end - sorted.begin()) / 2;
  if (end == sorted.begin())
    return 0;
  std::nth_element(sorted.begin(), middle, end);
  return *middle;
}

double RankStatus::processorSeconds() const {
  timespec time;
  if (!hasClock.load(std::memory_order_acquire) || clock_gettime(clock.load(std::memory_order_relaxed), &time) != 0)
    return 0;
  return double(time.tv_sec) + 1e-9 * double(time.tv_nsec);
}

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

void RankStatus::setPlace(const char *newWhat, const char *newLabel) {
  what.store(newWhat, std::memory_order_relaxed);
  for (int word = 0; word < kLabelWords; ++word) {
    char bytes[8] = {};
    int length = 0;
    while (length < 8 && newLabel[length])
      ++length;
    std::memcpy(bytes, newLabel, length);
    uint64_t value;
    std::memcpy(&value, bytes, 8);
    label[word].store(value, std::memory_order_relaxed);
    if (length < 8)
      break;
    newLabel += 8;
  }
}

std::string RankStatus::place() const {
  const char *now = what.load(std::memory_order_relaxed);
  if (!now)
    return "start";
  char text[8 * kLabelWords + 1] = {};
  for (int word = 0; word < kLabelWords; ++word) {
    uint64_t value = label[word].load(std::memory_order_relaxed);
    std::memcpy(text + 8 * word, &value, 8);
    if (!text[8 * word + 7])
      break;
  }
  return text[0] ? std::string(now) + " (" + text + ")" : now;
}

std::string RankStatus::describe() const {
  int64_t now = step.load(std::memory_order_relaxed);
  std::string text = now >= 0 ? "at step " + std::to_string(now) : "before the first step";
  if (what.load(std::memory_order_relaxed))
    text += ", " + std::string(waitsFor.load(std::memory_order_relaxed) >= 0 ? "in " : "last in ") + place();
  return text;
}

} // namespace echelon::runtime
