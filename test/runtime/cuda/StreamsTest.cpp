// Streams of the emulated devices: legal orders by seed, events, waits in vain, ranks as threads, and the devices.
#include "runtime/cuda/host/Streams.h"
#include "OnDevice.h"
#include "UnderSeeds.h"

#include <gtest/gtest.h>

#include <set>
#include <string>
#include <thread>
#include <vector>

namespace echelon::cuda {
namespace {

constexpr int64_t kCount = 100;

__global__ void add_kernel(float *to, const float *from, int64_t n) {
  if (element() < n)
    to[element()] += from[element()];
}
void add(Stream stream, OnDevice<float> &to, OnDevice<float> &from) {
  launch("add", add_kernel, cover(kCount, 32), stream, inout(to.get(), kCount), in(from.get(), kCount), kCount);
}

Stream makeStream() {
  Stream stream;
  check(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking), "stream");
  return stream;
}
struct Event {
  cudaEvent_t event;
  Event() { check(cudaEventCreateWithFlags(&event, cudaEventDisableTiming), "event"); }
  Event(const Event &) = delete;
  ~Event() { EXPECT_EQ(cudaEventDestroy(event), cudaSuccess); }
  operator cudaEvent_t() const { return event; }
};
void sync(Stream stream) { check(cudaStreamSynchronize(stream), "wait"); }

/// The order in which one task of each of four streams runs.
std::string orderUnder(uint64_t seed) {
  setSeed(seed);
  std::string order;
  for (char name : {'a', 'b', 'c', 'd'})
    host::enqueue(makeStream(), "a letter", {}, [&order, name] { order += name; });
  check(cudaDeviceSynchronize(), "wait");
  return order;
}

class Streams : public ::testing::Test {
protected:
  void TearDown() override {
    check(cudaDeviceSynchronize(), "wait");
    setSeed(0);
    EXPECT_EQ(racesFound(), 0) << lastRace();
  }
};
using StreamsDeathTest = Streams;

// Seed 0 takes streams as they come; the others draw orders that differ and come back.
TEST_F(Streams, RunInTheOrderOfTheSeed) {
  EXPECT_EQ(orderUnder(0), "abcd");
  std::set<std::string> odd, even;
  for (uint64_t seed = 1; seed < 20; ++seed) {
    const std::string order = orderUnder(seed);
    (seed % 2 ? odd : even).insert(order);
    EXPECT_EQ(order, orderUnder(seed)) << seed;
  }
  EXPECT_GE(odd.size(), 5u);
  EXPECT_GE(even.size(), 5u);
}

// Tasks of one stream keep their order under every seed.
TEST_F(Streams, AreQueues) {
  for (uint64_t seed = 0; seed < 8; ++seed) {
    setSeed(seed);
    const Stream stream = makeStream();
    std::string order;
    for (char name : {'a', 'b', 'c', 'd'})
      host::enqueue(stream, "a letter", {}, [&order, name] { order += name; });
    sync(stream);
    EXPECT_EQ(order, "abcd") << seed;
  }
}

// A loop of queries ends, even where work comes as late as can be.
TEST_F(Streams, MoveOnWhenAsked) {
  for (uint64_t seed : {0, 1, 2, 3}) {
    setSeed(seed);
    const Stream stream = makeStream();
    const Event event;
    EXPECT_EQ(cudaEventQuery(event), cudaSuccess); // never recorded
    int runs = 0;
    for (int i = 0; i < 3; ++i)
      host::enqueue(stream, "a task", {}, [&runs] { ++runs; });
    check(cudaEventRecord(event, stream), "record");
    if (seed % 2 == 1) {
      EXPECT_EQ(runs, 0);
      EXPECT_EQ(cudaEventQuery(event), cudaErrorNotReady);
      EXPECT_EQ(cudaGetLastError(), cudaErrorNotReady);
    }
    while (cudaEventQuery(event) == cudaErrorNotReady) {
    }
    EXPECT_EQ(runs, 3);
    EXPECT_EQ(cudaStreamQuery(stream), cudaSuccess);
  }
  cudaGetLastError();
}

// c = a + b on one stream, d += c on another, behind an event.
TEST_F(Streams, WaitForEvents) {
  underSeeds([] {
    const Stream first = makeStream(), second = makeStream();
    const Event event;
    const std::vector<float> ones(kCount, 1.0f);
    OnDevice<float> a(ones), c(ones), d(ones);
    add(first, c, a);
    check(cudaEventRecord(event, first), "record");
    check(cudaStreamWaitEvent(second, event, 0), "wait");
    add(second, d, c);
    sync(second);
    EXPECT_EQ(d.host(), std::vector<float>(kCount, 3.0f));
  });
}

// An event stands for the record before the wait, not for later ones.
TEST_F(Streams, WaitForTheLastRecord) {
  setSeed(1);
  const Stream first = makeStream(), second = makeStream();
  const Event event;
  bool isDone = false;
  check(cudaEventRecord(event, first), "record");
  check(cudaStreamWaitEvent(second, event, 0), "wait");
  const auto stuck = [&isDone] { return isDone; };
  host::Task task;
  task.what = "a task";
  task.ready = stuck;
  host::put(*first, task);
  check(cudaEventRecord(event, first), "record");
  sync(second); // the second record cannot come yet
  EXPECT_EQ(cudaEventQuery(event), cudaErrorNotReady);
  cudaGetLastError();
  isDone = true;
  EXPECT_EQ(cudaEventSynchronize(event), cudaSuccess);
}

// A stream that is destroyed finishes its work, and the device still waits for it.
TEST_F(Streams, OutliveTheirHandles) {
  setSeed(1);
  const std::vector<float> ones(kCount, 1.0f);
  OnDevice<float> a(ones), b(ones);
  const Stream stream = makeStream();
  add(stream, a, b);
  EXPECT_EQ(cudaStreamDestroy(stream), cudaSuccess);
  check(cudaDeviceSynchronize(), "wait");
  EXPECT_EQ(a.host(), std::vector<float>(kCount, 2.0f));
}

// Streams that wait for the default one are not emulated, and say so.
TEST_F(Streams, AreOfOneKind) {
  Stream stream;
  EXPECT_EQ(cudaStreamCreateWithFlags(&stream, cudaStreamDefault), cudaErrorNotSupported);
  EXPECT_EQ(cudaGetLastError(), cudaErrorNotSupported);
}

// What is first in each stream is the way to the fault.
TEST_F(StreamsDeathTest, TellWhatTheyWaitFor) {
  const auto waitInVain = [] {
    host::setPatience(0.1);
    const Stream stream = makeStream(), other = makeStream();
    host::Task task;
    task.what = "a sum of two ranks";
    task.ready = [] { return false; };
    host::put(*stream, task);
    const Event event;
    check(cudaEventRecord(event, stream), "record");
    check(cudaStreamWaitEvent(other, event, 0), "wait");
    sync(other);
  };
  EXPECT_DEATH(waitInVain(), "cudaStreamSynchronize waits in vain; first in the streams:\n"
                             "  device 0, stream [0-9]+: a sum of two ranks\n"
                             "  device 0, stream [0-9]+: the wait for an event");
}

// Each rank is a thread with its own device, default stream and last error.
TEST_F(Streams, BelongToRanks) {
  setSeed(1);
  int runs[2] = {};
  const auto rank = [&](int number) {
    check(cudaSetDevice(number), "device");
    int device = -1;
    check(cudaGetDevice(&device), "device");
    EXPECT_EQ(device, number);
    EXPECT_EQ(cudaPeekAtLastError(), cudaSuccess);
    for (int i = 0; i < 50; ++i)
      host::enqueue(nullptr, "a task", {}, [&runs, number] { ++runs[number]; });
    check(cudaDeviceSynchronize(), "wait");
    EXPECT_EQ(runs[number], 50);
    EXPECT_EQ(cudaSetDevice(8), cudaErrorInvalidDevice);
  };
  std::thread first(rank, 0), second(rank, 1);
  first.join();
  second.join();
  EXPECT_EQ(cudaGetLastError(), cudaSuccess);
}

// One rank's task may have to wait for another rank's, whose thread comes later.
TEST_F(Streams, WaitForOtherRanks) {
  for (uint64_t seed = 0; seed < 8; ++seed) {
    setSeed(seed);
    bool hasCome = false;
    std::thread first([&] {
      host::Task task;
      task.what = "a meeting";
      task.ready = [&] { return hasCome; };
      host::put(host::streamOf(nullptr), task);
      sync(nullptr);
    });
    std::thread second([&] {
      check(cudaSetDevice(1), "device");
      host::enqueue(nullptr, "a task", {}, [&] { hasCome = true; });
      sync(nullptr);
    });
    first.join();
    second.join();
  }
}

// What a thread has waited for orders those that it makes, and those that wait for its end.
TEST_F(Streams, KnowWhenThreadsBeginAndEnd) {
  setSeed(1);
  const std::vector<float> ones(kCount, 1.0f);
  OnDevice<float> a(ones), b(ones);
  std::thread rank([&] {
    const Stream stream = makeStream();
    add(stream, a, b);
    sync(stream);
  });
  rank.join();
  EXPECT_EQ(a.host(), std::vector<float>(kCount, 2.0f));
}

TEST(Devices, AreEightOfAHopperKind) {
  int count = 0, value = 0;
  EXPECT_EQ(cudaGetDeviceCount(&count), cudaSuccess);
  EXPECT_EQ(count, 8);
  cudaDeviceProp properties;
  EXPECT_EQ(cudaGetDeviceProperties(&properties, 7), cudaSuccess);
  EXPECT_STREQ(properties.name, "emulated");
  EXPECT_EQ(properties.major * 10 + properties.minor, 90);
  EXPECT_EQ(properties.multiProcessorCount, 132);
  EXPECT_EQ(cudaDeviceGetAttribute(&value, cudaDevAttrMultiProcessorCount, 0), cudaSuccess);
  EXPECT_EQ(value, 132);
  EXPECT_EQ(cudaDeviceGetAttribute(&value, cudaDevAttrMaxSharedMemoryPerBlockOptin, 0), cudaSuccess);
  EXPECT_EQ(value, 227 << 10);
  const auto *kernel = reinterpret_cast<const void *>(&add_kernel);
  EXPECT_EQ(cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, 227 << 10), cudaSuccess);
  EXPECT_EQ(cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, (227 << 10) + 1),
            cudaErrorInvalidValue);
  EXPECT_EQ(cudaGetDeviceProperties(&properties, 8), cudaErrorInvalidDevice);
  EXPECT_EQ(cudaPeekAtLastError(), cudaErrorInvalidDevice);
  EXPECT_EQ(cudaGetLastError(), cudaErrorInvalidDevice);
  EXPECT_EQ(cudaGetLastError(), cudaSuccess);
  EXPECT_STREQ(cudaGetErrorString(cudaErrorInvalidDevice), "invalid device ordinal");
  EXPECT_STREQ(cudaGetErrorName(cudaErrorInvalidDevice), "cudaErrorInvalidDevice");
}

} // namespace
} // namespace echelon::cuda
