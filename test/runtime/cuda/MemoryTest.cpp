// Memory of the emulated devices: what it holds at first, who may touch it, and what a launch finds of it.
#include "OnDevice.h"
#include "UnderSeeds.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <string>
#include <vector>

namespace echelon::cuda {
namespace {

constexpr int64_t kCount = 100;

float *allocate(int64_t count = kCount) {
  void *data = nullptr;
  check(cudaMalloc(&data, static_cast<size_t>(count) * sizeof(float)), "memory");
  return static_cast<float *>(data);
}
std::vector<float> read(const float *from, int64_t count = kCount) {
  std::vector<float> result(static_cast<size_t>(count));
  check(cudaMemcpy(result.data(), from, result.size() * sizeof(float), cudaMemcpyDeviceToHost), "copy");
  return result;
}

__global__ void copy_kernel(float *to, const float *from, int64_t shift, int64_t n) {
  if (element() < n)
    to[element() + shift] = from[element()];
}

struct Memory : ::testing::Test {
  float *x = allocate(), *y = allocate();

  Memory() {
    setSeed(0);
    check(cudaMemset(x, 0, kCount * sizeof(float)), "fill");
  }
  ~Memory() override {
    check(cudaFree(x), "free");
    check(cudaFree(y), "free");
    setIsolation(false);
    EXPECT_EQ(racesFound(), 0) << lastRace();
  }
};
using MemoryDeathTest = Memory;

TEST_F(Memory, IsNaNAtFirst) {
  for (float value : read(y))
    EXPECT_TRUE(std::isnan(value));
  void *pinned = nullptr;
  EXPECT_EQ(cudaMallocHost(&pinned, 16 * sizeof(double)), cudaSuccess);
  EXPECT_TRUE(std::isnan(static_cast<double *>(pinned)[15]));
  EXPECT_EQ(cudaFreeHost(pinned), cudaSuccess);
}

TEST_F(Memory, IsCopiedAndFilled) {
  underSeeds([&] {
    std::vector<float> values(kCount);
    for (size_t i = 0; i < values.size(); ++i)
      values[i] = static_cast<float>(i);
    const size_t bytes = kCount * sizeof(float);
    EXPECT_EQ(cudaMemcpyAsync(x, values.data(), bytes, cudaMemcpyHostToDevice, nullptr), cudaSuccess);
    EXPECT_EQ(cudaMemcpyAsync(y, x, bytes, cudaMemcpyDeviceToDevice, nullptr), cudaSuccess);
    EXPECT_EQ(cudaMemsetAsync(x, 0, bytes, nullptr), cudaSuccess);
    EXPECT_EQ(read(y), values);
    EXPECT_EQ(read(x), std::vector<float>(kCount, 0.0f));
  });
}

// A copy whose direction is not the true one would go wrong on a device.
TEST_F(Memory, IsCopiedInTheDirectionSaid) {
  float host[kCount];
  EXPECT_EQ(cudaMemcpy(host, x, sizeof host, cudaMemcpyHostToDevice), cudaErrorInvalidValue);
  EXPECT_EQ(cudaMemcpy(y, x, sizeof host, cudaMemcpyDeviceToHost), cudaErrorInvalidValue);
  EXPECT_EQ(cudaMemcpy(host, x, sizeof host, cudaMemcpyDefault), cudaSuccess);
  cudaGetLastError();
}

// A host that reads what is copied to it before it has waited finds NaNs, not what was there; what another copy is
// still to read from there stays.
TEST_F(Memory, OfTheHostIsNaNUntilTheCopyIsOver) {
  setSeed(1);
  void *memory = nullptr;
  check(cudaMallocHost(&memory, 2 * sizeof(float)), "memory");
  auto *pinned = static_cast<float *>(memory);
  pinned[0] = pinned[1] = 7;
  check(cudaMemcpyAsync(pinned, x, sizeof(float), cudaMemcpyDeviceToHost, nullptr), "copy");
  EXPECT_TRUE(std::isnan(pinned[0]));
  check(cudaMemcpyAsync(y, pinned + 1, sizeof(float), cudaMemcpyHostToDevice, nullptr), "copy");
  check(cudaMemcpyAsync(pinned + 1, x, sizeof(float), cudaMemcpyDeviceToHost, nullptr), "copy");
  EXPECT_EQ(pinned[1], 7);
  check(cudaDeviceSynchronize(), "wait");
  EXPECT_EQ(pinned[0], 0);
  EXPECT_EQ(pinned[1], 0);
  EXPECT_EQ(read(y, 1)[0], 7);
  check(cudaFreeHost(memory), "free");
  setSeed(0);
}

TEST_F(Memory, IsGivenAndTaken) {
  size_t before = 0, free = 0, total = 0;
  EXPECT_EQ(cudaMemGetInfo(&before, &total), cudaSuccess);
  float *more = allocate(1 << 20);
  EXPECT_EQ(cudaMemGetInfo(&free, &total), cudaSuccess);
  EXPECT_EQ(before - free, size_t(4) << 20);
  EXPECT_EQ(cudaFree(more + 1), cudaErrorInvalidValue);
  EXPECT_EQ(cudaFree(more), cudaSuccess);
  EXPECT_EQ(cudaFree(nullptr), cudaSuccess);
  void *much = nullptr;
  EXPECT_EQ(cudaMalloc(&much, total + 1), cudaErrorMemoryAllocation);
  EXPECT_EQ(cudaMalloc(&much, 0), cudaSuccess);
  EXPECT_EQ(much, nullptr);
  cudaGetLastError();
}

TEST_F(Memory, OfTheHostIsRegisteredOnce) {
  std::vector<float> own(kCount);
  const size_t bytes = kCount * sizeof(float);
  EXPECT_EQ(cudaHostUnregister(own.data()), cudaErrorHostMemoryNotRegistered);
  EXPECT_EQ(cudaHostRegister(own.data(), bytes, 0), cudaSuccess);
  EXPECT_EQ(cudaHostRegister(own.data() + 1, 4, 0), cudaErrorHostMemoryAlreadyRegistered);
  launch("copy", copy_kernel, cover(kCount, 32), nullptr, out(y, kCount), in(own.data(), kCount), 0, kCount);
  EXPECT_EQ(cudaHostUnregister(own.data()), cudaSuccess);
  EXPECT_EQ(read(y), own);
  cudaGetLastError();
}

//===-- who may touch it -----------------------------------------------------------------------------------------===//

TEST_F(MemoryDeathTest, IsClosedToTheHost) {
  volatile float *theirs = x;
  EXPECT_DEATH((void)theirs[3], "the host touches device memory: byte 12 of 400");
  EXPECT_DEATH(theirs[0] = 1, "the host touches device memory: byte 0 of 400");
  setSeed(1); // work that has yet to run leaves it closed
  launch("copy", copy_kernel, cover(kCount, 32), nullptr, out(y, kCount), in(x, kCount), 0, kCount);
  EXPECT_DEATH((void)theirs[3], "the host touches device memory");
}

// A kernel that leaves its memory ends at the first byte, with its name.
TEST_F(MemoryDeathTest, EndsWhereItEnds) {
  const auto copyShifted = [&](int64_t shift) {
    launch("copy", copy_kernel, cover(kCount, 32), nullptr, out(y, kCount), in(x, kCount), shift, kCount);
  };
  copyShifted(0);
  EXPECT_DEATH(copyShifted(1), "'copy' leaves its memory: byte 400 of 400");
  EXPECT_DEATH(copyShifted(-1500), "'copy' leaves its memory: byte -[0-9]+ of 400");
  const auto copyFromNowhere = [&] {
    launch("copy", copy_kernel, cover(kCount, 32), nullptr, out(y, kCount), static_cast<const float *>(nullptr), 0,
           kCount);
  };
  EXPECT_DEATH(copyFromNowhere(), "'copy' touches .*, where no memory is");
}

// Before an allocation, up to the page's begin, nothing is closed; it shows later.
TEST_F(MemoryDeathTest, IsCheckedWhenFreed) {
  const auto writeBefore = [&] {
    launch("copy", copy_kernel, cover(kCount, 32), nullptr, out(y, kCount), in(x, kCount), -1, kCount);
    cudaFree(y);
  };
  EXPECT_DEATH(writeBefore(), "something wrote before the begin of 400 bytes of device memory");
}

TEST_F(MemoryDeathTest, IsDeclaredTruly) {
  EXPECT_DEATH(launch("copy", copy_kernel, cover(kCount, 32), nullptr, out(y, kCount + 1), in(x, kCount), 0, kCount),
               "'copy' declares 4 bytes past the end of its memory");
  std::vector<float> own(kCount);
  EXPECT_DEATH(
      launch("copy", copy_kernel, cover(kCount, 32), nullptr, out(own.data(), kCount), in(x, kCount), 0, kCount),
      "'copy' is given memory that is not the device's");
  EXPECT_DEATH(cudaMemset(y, 0, kCount * sizeof(float) + 1), "'a fill' declares 1 bytes past the end");
}

//===-- isolation ------------------------------------------------------------------------------------------------===//

// What is declared in part stays whole, and keeps what the launch did.
TEST_F(Memory, IsHiddenButForWhatIsDeclared) {
  setIsolation(true);
  launch("copy", copy_kernel, cover(10, 32), nullptr, out(y + 20, 10), in(x, 10), 0, 10);
  const std::vector<float> result = read(y);
  for (int64_t i = 0; i < kCount; ++i)
    EXPECT_EQ(std::isnan(result[size_t(i)]), i < 20 || i >= 30) << i;
}

TEST_F(Memory, IsNaNWhereNotDeclared) {
  setIsolation(true);
  launch("copy", copy_kernel, cover(kCount, 32), nullptr, out(y, kCount), in(x, kCount / 2), 0, kCount);
  const std::vector<float> result = read(y);
  EXPECT_EQ(result[kCount / 2 - 1], 0.0f);
  EXPECT_TRUE(std::isnan(result[kCount / 2]));
}

TEST_F(MemoryDeathTest, IsNotWrittenWhereNotDeclared) {
  setIsolation(true);
  EXPECT_DEATH(launch("copy", copy_kernel, cover(kCount, 32), nullptr, out(y, kCount - 1), in(x, kCount), 0, kCount),
               "'copy' writes where it does not declare it, within bytes 396 to 400 of 400");
}

// A library's call whose declaration is wrong: it writes what it is said to read.
TEST_F(MemoryDeathTest, IsNotWrittenWhereOnlyRead) {
  setIsolation(true);
  const auto writeWhatIsRead = [&] {
    float *to = x;
    host::enqueue(nullptr, "a product", host::rangesOf(in(x, kCount), out(y, kCount)), [to] { to[3] = 1; });
  };
  EXPECT_DEATH(writeWhatIsRead(), "'a product' writes where it does not declare it, within bytes 0 to 400 of 400");
}

} // namespace
} // namespace echelon::cuda
