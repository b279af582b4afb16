#include "runtime/program/Offload.h"
#include "runtime/transport/shared/Segment.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <csignal>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <sys/mman.h>
#include <sys/resource.h>
#include <unistd.h>

using namespace echelon::runtime;
namespace fs = std::filesystem;

namespace {

constexpr int64_t kFrom = kOffloadAlignment, kBytes = 4 * kPieceBytes;

/// A state arena whose end is offloaded to a folder.
class OffloadTest : public testing::Test {
protected:
  void SetUp() override {
    folder = (fs::current_path() / ("offload-" + std::to_string(getpid()))).string(); // on a disk, as /tmp may not be
    fs::create_directories(folder);
    void *memory = mmap(nullptr, kFrom + kBytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    ASSERT_NE(memory, MAP_FAILED);
    arena = static_cast<std::byte *>(memory);
  }
  void TearDown() override {
    munmap(arena, kFrom + kBytes);
    fs::remove_all(folder);
  }
  Offload offload() const { return {folder, kFrom, kBytes, 2 * kPieceBytes}; }

  /// Bytes of the offloaded end that this process has in memory.
  int64_t resident() const {
    std::ifstream maps("/proc/self/smaps");
    std::ostringstream begins;
    begins << std::hex << reinterpret_cast<uintptr_t>(arena + kFrom) << "-";
    int64_t kib = -1;
    bool isOurs = false;
    for (std::string line; kib < 0 && std::getline(maps, line);) {
      isOurs |= line.rfind(begins.str(), 0) == 0;
      if (isOurs && line.rfind("Rss:", 0) == 0)
        kib = std::stoll(line.substr(4));
    }
    return kib * 1024;
  }

  std::string folder;
  std::byte *arena = nullptr;
};

// What is let go leaves memory, but for two pieces, and is there when it is touched again.
TEST_F(OffloadTest, WhatIsLetGoIsKept) {
  OffloadedState state(offload(), arena);
  auto *numbers = reinterpret_cast<int64_t *>(arena + kFrom);
  constexpr int64_t count = kBytes / 8, most = kPieceBytes / 8;
  for (int round = 0; round < 3; ++round) {
    int64_t peak = 0;
    for (int64_t first = 0; first < count; first += most) {
      state.fetch(0, arena + kFrom + 8 * (first + most), kPieceBytes);
      for (int64_t i = first; i < first + most; ++i) {
        ASSERT_EQ(numbers[i], round ? i + round - 1 : 0);
        numbers[i] = i + round;
      }
      peak = std::max(peak, resident());
      state.letGo(arena + kFrom + 8 * first, kPieceBytes);
    }
    EXPECT_LE(peak, 2 * kPieceBytes + kOffloadAlignment) << "in round " << round;
    EXPECT_GE(peak, kPieceBytes); // it is looked at the right mapping
  }
  EXPECT_TRUE(fs::is_empty(folder)) << "a file has a name";
}

// Small tensors go together; what is not offloaded, before them, stays as it is.
TEST_F(OffloadTest, SmallTensorsGoTogether) {
  OffloadedState state(offload(), arena);
  std::fill(arena, arena + kFrom + kBytes, std::byte(7));
  for (int64_t at = 0; at + 1000 <= kBytes; at += 1000)
    state.letGo(arena + kFrom + at, 1000);
  EXPECT_LE(resident(), kPieceBytes);
  state.letGo(arena, kFrom);
  EXPECT_EQ(std::count(arena, arena + kFrom + kBytes, std::byte(7)), kFrom + kBytes);
}

TEST_F(OffloadTest, IsClearedInPieces) {
  OffloadedState state(offload(), arena);
  std::fill(arena + kFrom, arena + kFrom + kBytes, std::byte(7));
  state.clear(arena + kFrom + 100, kBytes - 200);
  EXPECT_LE(resident(), 2 * kPieceBytes);
  EXPECT_EQ(std::count(arena + kFrom, arena + kFrom + kBytes, std::byte(7)), 200);
}

// A page that is locked in memory cannot leave it: that is told, and no more memory taken than was planned.
TEST_F(OffloadTest, TellsOfPagesThatAreLocked) {
  if (mlock(arena + kFrom, 4096) != 0 || madvise(arena + kFrom, 4096, MADV_DONTNEED) == 0)
    GTEST_SKIP() << "no memory can be locked here; under sanitizers mlock does nothing";
  munlock(arena + kFrom, 4096);
  OffloadedState state(offload(), arena);
  auto letGoWhatIsLocked = [&] {
    mlock(arena + kFrom, 4096);
    state.letGo(arena + kFrom, kPieceBytes);
  };
  EXPECT_EXIT(letGoWhatIsLocked(), testing::ExitedWithCode(4),
              "pages of its file do not leave memory: Invalid argument; lift the lock on memory");
}

TEST_F(OffloadTest, RefusesFoldersThatAreMissingOrFull) {
  Offload missing = offload();
  missing.directory += "/none";
  EXPECT_EXIT(OffloadedState(missing, arena), testing::ExitedWithCode(4),
              "offload optimizer to \".*/none\": cannot make a file in this directory: No such file or directory");
  auto onFullDisk = [&] {
    std::signal(SIGXFSZ, SIG_IGN); // as a program has it
    rlimit most = {};
    most.rlim_cur = most.rlim_max = rlim_t(kBytes / 2);
    setrlimit(RLIMIT_FSIZE, &most);
    OffloadedState(offload(), arena);
  };
  EXPECT_EXIT(onFullDisk(), testing::ExitedWithCode(4),
              "no room for the 67.1 MB that the optimizer keeps on this rank: File too large");
}

// A file over a part of a rank's arena is not what peers see there.
TEST(Segment, HasNoPartInWhatARankMapsOverIt) {
  Segment segment(2, 1 << 20);
  const char *arena = segment.arena(1);
  EXPECT_TRUE(segment.contains(arena + 4096));
  segment.exclude(arena + 4096, 8192);
  EXPECT_TRUE(segment.contains(arena + 4095));
  EXPECT_FALSE(segment.contains(arena + 4096));
  EXPECT_FALSE(segment.contains(arena + 4096 + 8191));
  EXPECT_TRUE(segment.contains(arena + 4096 + 8192));
}

} // namespace
