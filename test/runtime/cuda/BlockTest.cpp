// A block of fibers: barriers, shuffles, shared memory, and what of a kernel it finds to be wrong.
#include "runtime/cuda/Device.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <set>

namespace echelon::cuda {
namespace {

using host::runGrid;

constexpr unsigned kAll = 0xffffffffu;

int thread() { return static_cast<int>(threadIdx.x); }

/// In a template, since g++ treats static variables in those in its own way.
template <typename T> T sumThroughSharedMemory(T x, bool meets) {
  __shared__ T parts[64];
  parts[thread()] = x;
  if (meets)
    __syncthreads();
  T sum = T(0);
  for (T part : parts)
    sum += part;
  return sum;
}

template <typename T> bool allAre(const std::vector<T> &x, T value) {
  return std::all_of(x.begin(), x.end(), [&](T element) { return element == value; });
}

TEST(Block, RunsEachThreadOfEachBlockOnce) {
  std::vector<int> runs(3 * 2 * 2 * 64);
  runGrid("count", dim3(3, 2, 2), dim3(8, 4, 2), 0, [&] {
    const unsigned block = (blockIdx.z * gridDim.y + blockIdx.y) * gridDim.x + blockIdx.x;
    const unsigned thread = (threadIdx.z * blockDim.y + threadIdx.y) * blockDim.x + threadIdx.x;
    ++runs[block * 64 + thread];
  });
  EXPECT_TRUE(allAre(runs, 1));
}

TEST(Block, BarrierShowsWhatOthersWrote) {
  std::vector<double> sums(5 * 64);
  runGrid("sum", 5, 64, 0, [&] { sums[blockIdx.x * 64 + thread()] = sumThroughSharedMemory<double>(thread(), true); });
  EXPECT_TRUE(allAre(sums, 63.0 * 32));
}

// The first thread to run reads what the others have not written yet. Other blocks left numbers there: they are gone.
TEST(Block, MissingBarrierGivesNaN) {
  for (int i = 0; i < 9; ++i) {
    std::vector<float> sums(3 * 64);
    runGrid("sum", 3, 64, 0, [&] { sums[blockIdx.x * 64 + thread()] = sumThroughSharedMemory<float>(1, false); });
    for (int b = 0; b < 3; ++b)
      EXPECT_TRUE(std::any_of(&sums[b * 64], &sums[b * 64] + 64, [](float x) { return std::isnan(x); }));
  }
}

// Else a race between blocks would show by luck alone.
TEST(Block, OrdersChange) {
  std::vector<std::vector<int>> blocks(8), lanes(8);
  for (int i = 0; i < 8; ++i)
    runGrid("order", 6, 32, 0, [&] {
      if (thread() == 0)
        blocks[i].push_back(static_cast<int>(blockIdx.x));
      if (blockIdx.x == 0)
        lanes[i].push_back(thread());
    });
  EXPECT_GT(std::set<std::vector<int>>(blocks.begin(), blocks.end()).size(), 2u);
  EXPECT_GT(std::set<std::vector<int>>(lanes.begin(), lanes.end()).size(), 4u);
}

TEST(Block, Shuffles) {
  std::vector<int> from(64), with(64), up(64), down(64);
  runGrid("shuffle", 1, 64, 0, [&] {
    const int t = thread();
    from[t] = __shfl_sync(kAll, t, 5);
    with[t] = __shfl_xor_sync(kAll, t, 16);
    up[t] = __shfl_up_sync(kAll, t, 3);
    down[t] = __shfl_down_sync(kAll, t, 30);
  });
  for (int t = 0; t < 64; ++t) {
    const int first = t / 32 * 32, lane = t % 32;
    EXPECT_EQ(from[t], first + 5);
    EXPECT_EQ(with[t], first + (lane ^ 16));
    EXPECT_EQ(up[t], lane < 3 ? t : t - 3);
    EXPECT_EQ(down[t], lane > 1 ? t : t + 30);
  }
}

// Eight bytes a lane; a hundred shuffles one after the other, in which fast lanes must not overtake slow ones.
TEST(Block, ShufflesOfDoublesInARow) {
  std::vector<double> sums(64);
  runGrid("sum", 1, 64, 0, [&] {
    double x = 0;
    for (int i = 0; i < 100; ++i)
      x += __shfl_sync(kAll, thread() + i / 128.0, i);
    sums[thread()] = x;
  });
  double expected = 0;
  for (int i = 0; i < 100; ++i)
    expected += i % 32 + i / 128.0;
  EXPECT_EQ(sums[7], expected);
  EXPECT_EQ(sums[40], expected + 100 * 32);
}

TEST(Block, Votes) {
  std::vector<unsigned> bits(64);
  std::vector<int> any(64), all(64);
  runGrid("vote", 1, 64, 0, [&] {
    bits[thread()] = __ballot_sync(kAll, thread() == 3 || thread() >= 32);
    any[thread()] = __any_sync(kAll, thread() == 40);
    all[thread()] = __all_sync(kAll, thread() >= 32);
  });
  for (int t = 0; t < 64; ++t) {
    EXPECT_EQ(bits[t], t < 32 ? 1u << 3 : kAll);
    EXPECT_EQ(any[t], t >= 32);
    EXPECT_EQ(all[t], t >= 32);
  }
}

TEST(Block, SumsOfDeviceH) {
  std::vector<float> sums(96), largest(96);
  runGrid("sums", 1, 96, 0, [&] {
    __shared__ float parts[32];
    sums[thread()] = block_sum(static_cast<float>(thread()), parts);
    largest[thread()] = block_max(static_cast<float>((thread() * 7) % 96), parts);
  });
  EXPECT_TRUE(allAre(sums, 95.0f * 48));
  EXPECT_TRUE(allAre(largest, 95.0f));
}

// Written to the last byte; NaN again in the next block.
TEST(Block, DynamicSharedMemory) {
  for (int n : {1, 33, 227 << 8}) {
    std::vector<int> fresh(2), right(2);
    runGrid("dynamic", 2, 32, n * sizeof(float), [&] {
      auto *x = shared_memory<float>();
      if (thread() == 0) {
        EXPECT_EQ(reinterpret_cast<uintptr_t>(x) % 128, 0u);
        fresh[blockIdx.x] = std::all_of(x, x + n, [](float element) { return std::isnan(element); });
      }
      __syncthreads();
      for (int i = thread(); i < n; i += 32)
        x[i] = static_cast<float>(i);
      __syncthreads();
      if (thread() == 31)
        right[blockIdx.x] = x[n - 1] == static_cast<float>(n - 1);
    });
    EXPECT_TRUE(allAre(fresh, 1));
    EXPECT_TRUE(allAre(right, 1));
  }
}

// They share their storage with kernels' variables.
TEST(Block, ThreadLocalsOfTheHostStay) {
  static thread_local int ours[3] = {1, 2, 3};
  runGrid("nothing", 2, 32, 0, [] {});
  EXPECT_EQ(ours[0] + ours[1] + ours[2], 6);
}

TEST(Block, AtomicsOfIntegers) {
  int sum = 0, most = -5, least = 5;
  runGrid("atomics", 2, 64, 0, [&] {
    atomicAdd(&sum, 2);
    atomicMax(&most, thread());
    atomicMin(&least, -thread());
  });
  EXPECT_EQ(sum, 256);
  EXPECT_EQ(most, 63);
  EXPECT_EQ(least, -63);
}

TEST(Block, LaunchSaysWhatItTouches) {
  double x[8] = {};
  const std::vector<host::Range> ranges = host::rangesOf(in(x, 2), 7, inout(x + 2, 3), out(x + 5, 1));
  ASSERT_EQ(ranges.size(), 4u);
  const char *begin = reinterpret_cast<const char *>(x);
  const host::Range expected[] = {
      {begin, 16, false}, {begin + 16, 24, false}, {begin + 16, 24, true}, {begin + 40, 8, true}};
  for (int i = 0; i < 4; ++i) {
    EXPECT_EQ(ranges[i].begin, expected[i].begin);
    EXPECT_EQ(ranges[i].bytes, expected[i].bytes);
    EXPECT_EQ(ranges[i].writes, expected[i].writes);
  }
}

/// Ends as a rank does that fails.
#define EXPECT_FAILS(work, message) EXPECT_EXIT(work, ::testing::ExitedWithCode(4), message)

TEST(BlockDeathTest, BarrierThatSomeDoNotReach) {
  EXPECT_FAILS(runGrid("half", dim3(1, 1, 2), 64, 0,
                       [] {
                         if (blockIdx.z == 1 && thread() < 32)
                           __syncthreads();
                       }),
               "echelon: half: block \\(0, 0, 1\\): some threads wait at a barrier that others do not reach");
}

TEST(BlockDeathTest, ShuffleThatSomeDoNotReach) {
  EXPECT_FAILS(
      runGrid("odd", 1, 64, 0,
              [] {
                if (thread() % 2)
                  __shfl_xor_sync(kAll, 1, 2);
              }),
      "odd: block \\(0, 0, 0\\): some lanes of a warp wait in a shuffle or __syncwarp that others do not reach");
}

TEST(BlockDeathTest, LanesThatWaitInDifferentPlaces) {
  EXPECT_FAILS(runGrid("apart", 1, 32, 0,
                       [] {
                         if (thread() < 3)
                           __syncthreads();
                         else
                           __syncwarp();
                       }),
               "apart: .*some lanes of a warp wait");
}

TEST(BlockDeathTest, MaskOfSomeLanes) {
  EXPECT_FAILS(runGrid("masked", 1, 32, 0, [] { __shfl_sync(0xffffu, 1, 2); }),
               "masked: .*: a mask leaves out lanes of the warp");
}

TEST(BlockDeathTest, ShapesThatNoDeviceHas) {
  EXPECT_FAILS(runGrid("k", 1, 33, 0, [] {}), "k: a block has 32, 64, ... or 1024 threads, not 33");
  EXPECT_FAILS(runGrid("k", 1, 1056, 0, [] {}), "k: a block has 32, 64, ... or 1024 threads, not 1056");
  EXPECT_FAILS(runGrid("k", dim3(1, 0), 32, 0, [] {}), "k: a grid of no blocks");
  EXPECT_FAILS(runGrid("k", 1, 32, 300 << 10, [] {}), "k: a block has at most 227 KB of shared memory, not 307200");
}

TEST(BlockDeathTest, SharedMemoryPastItsEnd) {
  EXPECT_DEATH(runGrid("past", 1, 32, 128, [] { shared_memory<char>()[128] = 1; }), "");
}

} // namespace
} // namespace echelon::cuda
