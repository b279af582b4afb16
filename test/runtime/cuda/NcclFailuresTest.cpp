// What of the emulated NCCL is refused, differs between ranks, hangs, or is aborted.
#include "OnRanks.h"
#include "UnderSeeds.h"
#include "runtime/cuda/host/Streams.h"

#include <chrono>
#include <vector>

namespace echelon::cuda {
namespace {

using namespace ranks;

// NCCL takes a device once.
TEST(NcclRefusals, TwoRanksOnOneDevice) {
  ncclUniqueId id;
  ncclGetUniqueId(&id);
  std::vector<ncclResult_t> results(2);
  std::vector<std::thread> threads;
  for (int rank = 0; rank < 2; ++rank)
    threads.emplace_back([&results, id, rank] {
      ncclComm_t comm;
      results[size_t(rank)] = ncclCommInitRank(&comm, 2, id, rank);
      EXPECT_STREQ(ncclGetLastError(nullptr), "Duplicate GPU detected : rank 0 and rank 1 both on CUDA device 0");
      ncclCommDestroy(comm);
    });
  for (std::thread &thread : threads)
    thread.join();
  EXPECT_EQ(results, std::vector<ncclResult_t>(2, ncclInvalidUsage));
}

TEST(NcclRefusals, WhatNoRankCouldMean) {
  onRanks(2, [](Rank &r) {
    Buffer<float> x({1.0f});
    EXPECT_EQ(ncclBroadcast(x.get(), x.get(), 1, ncclFloat32, 2, r.world, r.stream), ncclInvalidArgument);
    EXPECT_EQ(ncclSend(x.get(), 1, ncclFloat32, -1, r.world, r.stream), ncclInvalidArgument);
    EXPECT_EQ(ncclAllReduce(x.get(), x.get(), 1, ncclUint64, ncclSum, r.world, r.stream), ncclInvalidArgument);
    EXPECT_EQ(ncclAllReduce(x.get(), x.get(), 1, ncclFloat32, ncclSum, nullptr, r.stream), ncclInvalidArgument);
    EXPECT_EQ(ncclGroupEnd(), ncclInvalidUsage);
  });
}

// A communicator that does not block is polled until all have come.
TEST(NcclInit, CanBePolled) {
  ncclUniqueId id;
  ncclGetUniqueId(&id);
  std::vector<std::thread> threads;
  for (int rank = 0; rank < 2; ++rank)
    threads.emplace_back([id, rank] {
      cudaSetDevice(rank);
      ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
      config.blocking = 0;
      ncclComm_t world, part;
      const auto poll = [](ncclComm_t comm) {
        ncclResult_t state = ncclInProgress;
        while (state == ncclInProgress)
          ncclCommGetAsyncError(comm, &state);
        EXPECT_EQ(state, ncclSuccess);
      };
      EXPECT_EQ(ncclCommInitRankConfig(&world, 2, id, rank, &config), ncclInProgress);
      poll(world);
      EXPECT_EQ(ncclCommSplit(world, 0, 0, &part, &config), ncclInProgress);
      poll(part);
      int size = 0;
      check(ncclCommCount(part, &size));
      EXPECT_EQ(size, 2);
      ncclCommDestroy(part);
      ncclCommDestroy(world);
    });
  for (std::thread &thread : threads)
    thread.join();
}

// The other rank never comes. A watchdog aborts, and the wait ends.
TEST(NcclAbort, ReleasesWhoWaits) {
  underSeeds([] {
    onRanks(2, [](Rank &r) {
      if (r.rank == 1)
        return;
      ncclComm_t own;
      ncclUniqueId id;
      ncclGetUniqueId(&id);
      ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
      config.blocking = 0;
      Buffer<float> x({1.0f});
      EXPECT_EQ(ncclCommInitRankConfig(&own, 2, id, 0, &config), ncclInProgress);
      EXPECT_EQ(ncclAllReduce(x.get(), x.get(), 1, ncclFloat32, ncclSum, own, r.stream), ncclInvalidUsage);
      check(ncclCommAbort(own));
    });
    ncclUniqueId id;
    ncclGetUniqueId(&id);
    std::vector<std::thread> threads;
    for (int rank = 0; rank < 2; ++rank)
      threads.emplace_back([id, rank] {
        cudaSetDevice(rank);
        ncclComm_t world;
        check(ncclCommInitRank(&world, 2, id, rank));
        if (rank == 1) {
          ncclResult_t state = ncclSuccess;
          while (state == ncclSuccess)
            ncclCommGetAsyncError(world, &state);
          EXPECT_EQ(state, ncclRemoteError);
          check(ncclCommAbort(world));
          return;
        }
        Buffer<float> x({1.0f});
        check(ncclAllReduce(x.get(), x.get(), 1, ncclFloat32, ncclSum, world, nullptr));
        std::thread watchdog([world] {
          std::this_thread::sleep_for(std::chrono::milliseconds(50));
          check(ncclCommAbort(world));
        });
        EXPECT_EQ(cudaStreamSynchronize(nullptr), cudaSuccess); // as on a device: the memory holds anything
        watchdog.join();
      });
    for (std::thread &thread : threads)
      thread.join();
  });
}

TEST(NcclDeathTest, CallsThatDifferAreNamed) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  EXPECT_DEATH(
      onRanks(2,
              [](Rank &r) {
                Buffer<float> x(zeros<float>(8));
                check(ncclAllReduce(x.get(), x.get(), r.rank == 0 ? 8 : 4, ncclFloat32, ncclSum, r.world, r.stream));
                cudaDeviceSynchronize();
              }),
      "rank [01] calls all_reduce of [48] float by sum where rank [01] calls all_reduce of [48] float by sum");
  EXPECT_DEATH(onRanks(2,
                       [](Rank &r) {
                         Buffer<float> x(zeros<float>(8));
                         check(r.rank == 0 ? ncclSend(x.get(), 8, ncclFloat32, 1, r.world, r.stream)
                                           : ncclRecv(x.get(), 6, ncclFloat32, 0, r.world, r.stream));
                         cudaDeviceSynchronize();
                       }),
               "a message of [68] float from rank 0 to rank 1 where");
}

// Both send first, outside of a group.
TEST(NcclDeathTest, AHangSaysWhatIsFirst) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  EXPECT_DEATH(
      {
        host::setPatience(0.3);
        onRanks(2, [](Rank &r) {
          Buffer<float> x(zeros<float>(8));
          check(ncclSend(x.get(), 4, ncclFloat32, 1 - r.rank, r.world, r.stream));
          check(ncclRecv(x.get() + 4, 4, ncclFloat32, 1 - r.rank, r.world, r.stream));
          cudaDeviceSynchronize();
        });
      },
      "waits in vain; first in the streams:.*\n.*a message of 4 float from rank 0 to rank 1 \\(rank 0 of 2\\)");
  // One rank lacks a call.
  EXPECT_DEATH(
      {
        host::setPatience(0.3);
        onRanks(2, [](Rank &r) {
          Buffer<float> x(zeros<float>(8));
          if (r.rank == 1)
            check(ncclAllReduce(x.get(), x.get(), 8, ncclFloat32, ncclSum, r.world, r.stream));
          cudaDeviceSynchronize();
        });
      },
      "waits in vain; first in the streams:.*\n.*all_reduce of 8 float by sum \\(rank 1 of 2\\)");
}

} // namespace
} // namespace echelon::cuda
