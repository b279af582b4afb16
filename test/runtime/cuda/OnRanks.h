// Ranks for the tests of the emulated NCCL: threads, each with a device, a stream and the communicator of all.
#pragma once
#include "runtime/cuda/Device.h"
#include "runtime/cuda/host/Emulation.h"

#include <gtest/gtest.h>
#include <nccl.h>

#include <map>
#include <mutex>
#include <thread>
#include <utility>
#include <vector>

namespace echelon::cuda::ranks {

inline void check(ncclResult_t result) { ASSERT_EQ(result, ncclSuccess) << ncclGetLastError(nullptr); }

/// A rank: a thread with its device, a stream, and the communicator of all.
struct Rank {
  int rank, size;
  ncclComm_t world = nullptr;
  Stream stream = nullptr;
};

/// Made once, since the emulation keeps all streams.
inline Stream streamOfRank(int rank, int number) {
  static std::mutex mutex;
  static std::map<std::pair<int, int>, Stream> streams;
  const std::lock_guard<std::mutex> guard(mutex);
  Stream &stream = streams[{rank, number}];
  if (!stream)
    cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking);
  return stream;
}

template <typename Body> void onRanks(int size, Body body) {
  ncclUniqueId id;
  check(ncclGetUniqueId(&id));
  std::vector<std::thread> threads;
  for (int rank = 0; rank < size; ++rank)
    threads.emplace_back([=] {
      Rank r{rank, size};
      cudaSetDevice(rank);
      r.stream = streamOfRank(rank, 0);
      check(ncclCommInitRank(&r.world, size, id, rank));
      body(r);
      cudaDeviceSynchronize();
      check(ncclCommDestroy(r.world));
    });
  for (std::thread &thread : threads)
    thread.join();
}

/// Memory of the current device.
template <typename T> class Buffer {
public:
  explicit Buffer(const std::vector<T> &x) : count(x.size()) {
    void *memory = nullptr;
    cudaMalloc(&memory, count * sizeof(T));
    data = static_cast<T *>(memory);
    cudaMemcpy(data, x.data(), count * sizeof(T), cudaMemcpyHostToDevice);
  }
  ~Buffer() { cudaFree(data); }
  Buffer(const Buffer &) = delete;
  T *get() const { return data; }
  std::vector<double> host() const {
    std::vector<T> x(count);
    cudaDeviceSynchronize();
    cudaMemcpy(x.data(), data, count * sizeof(T), cudaMemcpyDeviceToHost);
    return {x.begin(), x.end()};
  }

private:
  T *data;
  size_t count;
};

template <typename T> std::vector<T> zeros(size_t count) { return std::vector<T>(count, T{}); }

} // namespace echelon::cuda::ranks
