// Graphs of the emulated devices: what is captured, launched, and refused.
#include "OnDevice.h"
#include "UnderSeeds.h"

#include <gtest/gtest.h>

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

std::vector<float> numbers(float x) { return std::vector<float>(kCount, x); }

struct Graphs : ::testing::Test {
  Stream first = nullptr, second = nullptr;
  cudaEvent_t fork = nullptr, join = nullptr;
  OnDevice<float> a{numbers(1)}, b{numbers(0)}, c{numbers(0)};

  Graphs() {
    setSeed(1);
    for (Stream *stream : {&first, &second})
      check(cudaStreamCreateWithFlags(stream, cudaStreamNonBlocking), "stream");
    for (cudaEvent_t *event : {&fork, &join})
      check(cudaEventCreateWithFlags(event, cudaEventDisableTiming), "event");
  }
  ~Graphs() override {
    check(cudaDeviceSynchronize(), "wait");
    cudaGetLastError();
    for (cudaEvent_t event : {fork, join})
      check(cudaEventDestroy(event), "event");
    EXPECT_EQ(racesFound(), 0) << lastRace();
  }

  void begin(cudaStreamCaptureMode mode = cudaStreamCaptureModeThreadLocal) {
    check(cudaStreamBeginCapture(first, mode), "capture");
  }
  /// The error of the end, after which there is no graph.
  cudaError_t endBroken(Stream stream) {
    cudaGraph_t graph = nullptr;
    const cudaError_t error = cudaStreamEndCapture(stream, &graph);
    EXPECT_EQ(graph, nullptr);
    return error;
  }
  cudaGraphExec_t end() {
    cudaGraph_t graph = nullptr;
    cudaGraphExec_t exec = nullptr;
    check(cudaStreamEndCapture(first, &graph), "capture");
    check(cudaGraphInstantiate(&exec, graph, 0), "graph");
    check(cudaGraphDestroy(graph), "graph");
    return exec;
  }
  void forkToSecond() {
    check(cudaEventRecord(fork, first), "record");
    check(cudaStreamWaitEvent(second, fork, 0), "wait");
  }
  void joinFirst() {
    check(cudaEventRecord(join, second), "record");
    check(cudaStreamWaitEvent(first, join, 0), "wait");
  }
  cudaStreamCaptureStatus status(Stream stream) const {
    cudaStreamCaptureStatus found;
    check(cudaStreamIsCapturing(stream, &found), "capture");
    return found;
  }
};

// Each launch does what was captured: b += a, and beside it c += a, then b += c.
TEST_F(Graphs, RunAsOftenAsTheyAreLaunched) {
  for (uint64_t seed = 0; seed < 8; ++seed) {
    SCOPED_TRACE(seed);
    setSeed(seed);
    setIsolation(seed == 6);
    OnDevice<float> x(numbers(0)), y(numbers(0));
    begin();
    forkToSecond();
    add(first, x, a);
    add(second, y, a);
    joinFirst();
    add(first, x, y);
    const cudaGraphExec_t exec = end();
    for (int i = 0; i < 3; ++i)
      EXPECT_EQ(cudaGraphLaunch(exec, first), cudaSuccess);
    EXPECT_EQ(cudaGraphExecDestroy(exec), cudaSuccess); // its work goes on
    check(cudaStreamSynchronize(first), "wait");
    EXPECT_EQ(x.host(), numbers(3 + 1 + 2 + 3));
    EXPECT_EQ(y.host(), numbers(3));
  }
  setIsolation(false);
}

// On another stream than before a launch still comes after the one before it.
TEST_F(Graphs, ComeOneAfterTheOther) {
  for (uint64_t seed = 0; seed < 8; ++seed) {
    setSeed(seed);
    OnDevice<float> x(numbers(0));
    begin();
    add(first, x, a);
    const cudaGraphExec_t exec = end();
    check(cudaGraphLaunch(exec, first), "launch");
    check(cudaGraphLaunch(exec, second), "launch");
    check(cudaStreamSynchronize(second), "wait");
    EXPECT_EQ(x.host(), numbers(2)) << seed;
  }
}

TEST_F(Graphs, RunNothingWhileCaptured) {
  setSeed(0);
  EXPECT_EQ(status(first), cudaStreamCaptureStatusNone);
  begin();
  add(first, b, a);
  EXPECT_EQ(status(first), cudaStreamCaptureStatusActive);
  EXPECT_EQ(status(second), cudaStreamCaptureStatusNone);
  check(cudaGraphExecDestroy(end()), "graph");
  EXPECT_EQ(b.host(), numbers(0));
}

//===-- what CUDA refuses ----------------------------------------------------------------------------------------===//

TEST_F(Graphs, RefuseStreamsThatAreNotJoined) {
  begin();
  forkToSecond();
  add(second, b, a);
  EXPECT_EQ(endBroken(first), cudaErrorStreamCaptureUnjoined);
  EXPECT_STREQ(cudaGetErrorString(cudaGetLastError()), "capturing stream has unjoined work");
  add(second, c, a); // they are free again
  check(cudaStreamSynchronize(second), "wait");
  EXPECT_EQ(b.host(), numbers(0));
  EXPECT_EQ(c.host(), numbers(1));
}

// Joined once is not enough: the work behind the record is unjoined.
TEST_F(Graphs, RefuseWorkBehindTheJoin) {
  begin();
  forkToSecond();
  add(second, b, a);
  joinFirst();
  add(second, c, a);
  EXPECT_EQ(endBroken(first), cudaErrorStreamCaptureUnjoined);
}

// A call that waits, or might, breaks the capture.
TEST_F(Graphs, RefuseCallsThatWait) {
  const auto refuses = [&](auto call) {
    begin();
    add(first, b, a);
    EXPECT_EQ(call(), cudaErrorStreamCaptureUnsupported);
    EXPECT_EQ(status(first), cudaStreamCaptureStatusInvalidated);
    EXPECT_EQ(endBroken(first), cudaErrorStreamCaptureInvalidated);
  };
  void *memory = nullptr;
  float number = 0;
  refuses([&] { return cudaStreamSynchronize(first); });
  refuses([&] { return cudaStreamQuery(first); });
  refuses([&] { return cudaDeviceSynchronize(); });
  refuses([&] { return cudaMalloc(&memory, 4); });
  refuses([&] { return cudaMallocHost(&memory, 4); });
  refuses([&] { return cudaFree(a.get()); });
  refuses([&] { return cudaMemcpy(&number, a.get(), 4, cudaMemcpyDeviceToHost); });
  EXPECT_EQ(a.host(), numbers(1));
}

// Of another thread's captures only a global one forbids such calls.
TEST_F(Graphs, ForbidByMode) {
  const auto allocateElsewhere = [] {
    cudaError_t error;
    std::thread([&error] {
      void *memory = nullptr;
      error = cudaMalloc(&memory, 4);
      if (error == cudaSuccess)
        cudaFree(memory);
    }).join();
    return error;
  };
  begin(cudaStreamCaptureModeThreadLocal);
  EXPECT_EQ(allocateElsewhere(), cudaSuccess);
  check(cudaGraphExecDestroy(end()), "graph");
  begin(cudaStreamCaptureModeGlobal);
  EXPECT_EQ(allocateElsewhere(), cudaErrorStreamCaptureUnsupported);
  EXPECT_EQ(endBroken(first), cudaErrorStreamCaptureInvalidated);
  begin(cudaStreamCaptureModeRelaxed);
  void *memory = nullptr;
  EXPECT_EQ(cudaMalloc(&memory, 4), cudaSuccess);
  check(cudaGraphExecDestroy(end()), "graph");
  EXPECT_EQ(cudaFree(memory), cudaSuccess);
}

TEST_F(Graphs, RefuseEventsOfTheOtherSide) {
  check(cudaEventRecord(join, second), "record"); // before the capture
  begin();
  check(cudaEventRecord(fork, first), "record");
  EXPECT_EQ(cudaEventQuery(fork), cudaErrorCapturedEvent);
  EXPECT_EQ(cudaEventSynchronize(fork), cudaErrorCapturedEvent);
  EXPECT_EQ(cudaStreamWaitEvent(first, join, 0), cudaErrorStreamCaptureIsolation);
  EXPECT_EQ(endBroken(first), cudaErrorStreamCaptureInvalidated);
  EXPECT_EQ(cudaStreamWaitEvent(second, fork, 0), cudaErrorCapturedEvent);
}

TEST_F(Graphs, AreNotMixed) {
  begin();
  check(cudaStreamBeginCapture(second, cudaStreamCaptureModeThreadLocal), "capture");
  check(cudaEventRecord(fork, first), "record");
  EXPECT_EQ(cudaStreamWaitEvent(second, fork, 0), cudaErrorStreamCaptureMerge);
  EXPECT_EQ(endBroken(first), cudaErrorStreamCaptureInvalidated);
  EXPECT_EQ(endBroken(second), cudaErrorStreamCaptureInvalidated);
}

TEST_F(Graphs, EndWhereAndAsTheyBegan) {
  EXPECT_EQ(endBroken(first), cudaErrorIllegalState);
  EXPECT_EQ(cudaStreamBeginCapture(nullptr, cudaStreamCaptureModeRelaxed), cudaErrorStreamCaptureUnsupported);
  begin();
  EXPECT_EQ(cudaStreamBeginCapture(first, cudaStreamCaptureModeRelaxed), cudaErrorIllegalState);
  forkToSecond();
  EXPECT_EQ(endBroken(second), cudaErrorStreamCaptureUnmatched);
  std::thread([&] { EXPECT_EQ(endBroken(first), cudaErrorStreamCaptureWrongThread); }).join();
  joinFirst();
  check(cudaGraphExecDestroy(end()), "graph");
}

} // namespace
} // namespace echelon::cuda
