// Small programs, each right as it stands, and named by the emulation when one event, wait or declaration is removed.
#include "OnDevice.h"
#include "UnderSeeds.h"

#include <gtest/gtest.h>

#include <cmath>
#include <functional>
#include <string>
#include <thread>
#include <vector>

namespace echelon::cuda {
namespace {

constexpr int64_t kCount = 64;
constexpr size_t kBytes = kCount * sizeof(float);

__global__ void copy_kernel(float *to, const float *from, int64_t n) {
  if (element() < n)
    to[element()] = from[element()];
}

/// Numbers its steps; one of them may be removed.
class Steps {
public:
  explicit Steps(int removed) : removed(removed) {}
  /// Runs the step, unless it is the one.
  template <typename Step> void operator()(Step step) {
    if (at++ % perRound + before != removed)
      step();
  }
  /// What follows, up to its end, comes several times, and is removed each time.
  void beginLoop(int stepsPerRound) {
    before = at;
    at = 0;
    perRound = stepsPerRound;
  }
  int count() const { return before + (perRound == kEndless ? at : perRound); }

private:
  static constexpr int kEndless = 1 << 30;
  int removed, at = 0, before = 0, perRound = kEndless;
};

/// Three streams, events and buffers of a rank.
struct Place {
  Stream streams[3];
  cudaEvent_t events[3];
  float *a, *b, *c, *d;

  Place() {
    for (Stream &stream : streams)
      check(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking), "stream");
    for (cudaEvent_t &event : events)
      check(cudaEventCreateWithFlags(&event, cudaEventDisableTiming), "event");
    for (float **buffer : {&a, &b, &c, &d}) {
      check(cudaMalloc(reinterpret_cast<void **>(buffer), kBytes), "memory");
      check(cudaMemset(*buffer, 0, kBytes), "fill");
    }
    check(cudaDeviceSynchronize(), "wait");
  }
  ~Place() {
    for (float *buffer : {a, b, c, d})
      check(cudaFree(buffer), "free");
    for (cudaEvent_t event : events)
      check(cudaEventDestroy(event), "event");
    for (Stream stream : streams)
      check(cudaStreamDestroy(stream), "stream");
  }

  void copy(int stream, float *to, const float *from) const {
    launch("copy", copy_kernel, cover(kCount, 32), streams[stream], out(to, kCount), in(from, kCount), kCount);
  }
  auto record(int event, int stream) const {
    return [=] { check(cudaEventRecord(events[event], streams[stream]), "record"); };
  }
  auto wait(int stream, int event) const {
    return [=] { check(cudaStreamWaitEvent(streams[stream], events[event], 0), "wait"); };
  }
};

//===-- programs -------------------------------------------------------------------------------------------------===//

using Program = std::function<void(Steps &)>;

/// The second stream reads what the first writes.
void readBehindWrite(Steps &step) {
  const Place p;
  p.copy(0, p.b, p.a);
  step(p.record(0, 0));
  step(p.wait(1, 0));
  p.copy(1, p.c, p.b);
}

/// The second overwrites what the first reads.
void writeBehindRead(Steps &step) {
  const Place p;
  p.copy(0, p.b, p.a);
  step(p.record(0, 0));
  step(p.wait(1, 0));
  p.copy(1, p.a, p.c);
}

void writeBehindWrite(Steps &step) {
  const Place p;
  p.copy(0, p.b, p.a);
  step(p.record(0, 0));
  step(p.wait(1, 0));
  p.copy(1, p.b, p.c);
}

/// Work of the first stream, then of both others, then of the first again.
void forkAndJoin(Steps &step) {
  const Place p;
  p.copy(0, p.b, p.a);
  check(cudaEventRecord(p.events[0], p.streams[0]), "record");
  step(p.wait(1, 0));
  step(p.wait(2, 0));
  p.copy(1, p.c, p.b);
  p.copy(2, p.d, p.b);
  p.record(1, 1)();
  p.record(2, 2)();
  step(p.wait(0, 1));
  step(p.wait(0, 2));
  p.copy(0, p.a, p.c);
  p.copy(0, p.a, p.d);
}

/// The third stream knows of the first by way of the second.
void throughAThird(Steps &step) {
  const Place p;
  p.copy(0, p.b, p.a);
  p.record(0, 0)();
  step(p.wait(1, 0));
  p.record(1, 1)();
  step(p.wait(2, 1));
  p.copy(2, p.c, p.b);
}

/// One stream fills two buffers in turns, another uses them.
void twoBuffersInALoop(Steps &step) {
  const Place p;
  float *buffers[] = {p.b, p.c};
  p.record(1, 1)();
  p.record(2, 1)();
  step.beginLoop(2);
  for (int i = 0; i < 4; ++i) {
    step(p.wait(0, 1 + i % 2));
    p.copy(0, buffers[i % 2], p.a);
    p.record(0, 0)();
    step(p.wait(1, 0));
    p.copy(1, p.d, buffers[i % 2]);
    p.record(1 + i % 2, 1)();
  }
}

void waitsOfTheHost(Steps &step) {
  const Place p;
  p.copy(0, p.b, p.a);
  step([&] { check(cudaStreamSynchronize(p.streams[0]), "wait"); });
  p.copy(1, p.c, p.b);
  p.record(0, 1)();
  step([&] { check(cudaEventSynchronize(p.events[0]), "wait"); });
  p.copy(2, p.d, p.c);
}

void copiesAndFills(Steps &step) {
  const Place p;
  const std::vector<float> values(kCount, 1.0f);
  check(cudaMemcpyAsync(p.a, values.data(), kBytes, cudaMemcpyHostToDevice, p.streams[0]), "copy");
  p.record(0, 0)();
  step(p.wait(1, 0));
  p.copy(1, p.b, p.a);
  p.record(1, 1)();
  step(p.wait(2, 1));
  check(cudaMemsetAsync(p.b, 0, kBytes, p.streams[2]), "fill");
  check(cudaDeviceSynchronize(), "wait"); // the values are read until then
}

/// Memory of the host that CUDA knows is watched, too.
void throughPinnedMemory(Steps &step) {
  const Place p;
  void *pinned = nullptr;
  check(cudaMallocHost(&pinned, kBytes), "memory");
  check(cudaMemcpyAsync(pinned, p.a, kBytes, cudaMemcpyDeviceToHost, p.streams[0]), "copy");
  p.record(0, 0)();
  step(p.wait(1, 0));
  check(cudaMemcpyAsync(p.b, pinned, kBytes, cudaMemcpyHostToDevice, p.streams[1]), "copy");
  check(cudaFreeHost(pinned), "free");
}

/// Two ranks, of which each may lack a wait.
void twoRanks(Steps &step) {
  const auto rank = [&step](int number) {
    check(cudaSetDevice(number), "device");
    const Place p;
    p.copy(0, p.b, p.a);
    p.record(0, 0)();
    step(p.wait(1, 0));
    p.copy(1, p.c, p.b);
    check(cudaDeviceSynchronize(), "wait");
  };
  std::thread(rank, 0).join(); // one after the other, so that steps have their numbers
  std::thread(rank, 1).join();
}

cudaGraphExec_t endCapture(Stream stream) {
  cudaGraph_t graph;
  cudaGraphExec_t exec;
  check(cudaStreamEndCapture(stream, &graph), "capture");
  check(cudaGraphInstantiate(&exec, graph, 0), "graph");
  check(cudaGraphDestroy(graph), "graph");
  return exec;
}

/// Both streams stay joined without the wait in the middle.
void withinAGraph(Steps &step) {
  const Place p;
  check(cudaStreamBeginCapture(p.streams[0], cudaStreamCaptureModeThreadLocal), "capture");
  p.record(0, 0)();
  p.wait(1, 0)();
  p.copy(0, p.b, p.a);
  p.record(1, 0)();
  step(p.wait(1, 1));
  p.copy(1, p.c, p.b);
  p.record(2, 1)();
  p.wait(0, 2)();
  const cudaGraphExec_t exec = endCapture(p.streams[0]);
  for (int i = 0; i < 2; ++i)
    check(cudaGraphLaunch(exec, p.streams[0]), "launch");
  check(cudaGraphExecDestroy(exec), "graph");
}

void aroundAGraph(Steps &step) {
  const Place p;
  check(cudaStreamBeginCapture(p.streams[0], cudaStreamCaptureModeThreadLocal), "capture");
  p.copy(0, p.b, p.a);
  const cudaGraphExec_t exec = endCapture(p.streams[0]);
  p.copy(1, p.a, p.d);
  p.record(0, 1)();
  step(p.wait(0, 0));
  check(cudaGraphLaunch(exec, p.streams[0]), "launch");
  p.record(1, 0)();
  step(p.wait(2, 1));
  p.copy(2, p.c, p.b);
  check(cudaGraphExecDestroy(exec), "graph");
}

struct Named {
  const char *name;
  Program program;
};
const Named kPrograms[] = {
    {"read behind write", readBehindWrite},
    {"write behind read", writeBehindRead},
    {"write behind write", writeBehindWrite},
    {"fork and join", forkAndJoin},
    {"through a third stream", throughAThird},
    {"two buffers in a loop", twoBuffersInALoop},
    {"waits of the host", waitsOfTheHost},
    {"copies and fills", copiesAndFills},
    {"through pinned memory", throughPinnedMemory},
    {"two ranks", twoRanks},
    {"within a graph", withinAGraph},
    {"around a graph", aroundAGraph},
};

//===-- tests ----------------------------------------------------------------------------------------------------===//

/// The races of a program without one of its steps; -1: with all of them. They are printed, and printed text is taken.
int racesWithout(int removed, const Program &program, int *steps = nullptr) {
  forgetRaces();
  Steps step(removed);
  ::testing::internal::CaptureStderr();
  program(step);
  check(cudaDeviceSynchronize(), "wait");
  const std::string printed = ::testing::internal::GetCapturedStderr();
  const int found = racesFound();
  EXPECT_EQ(found > 0, printed.find("; no event orders them\n") != std::string::npos) << printed;
  EXPECT_EQ(found > 0, !lastRace().empty());
  if (steps)
    *steps = step.count();
  forgetRaces();
  return found;
}

struct Races : ::testing::Test {
  ~Races() override {
    setSeed(0);
    setIsolation(false);
    forgetRaces();
  }
};
using RacesDeathTest = Races;

// Under every seed, whether the order drawn makes the result wrong or not.
TEST_F(Races, OfEachRemovedStepAreNamed) {
  int removedSteps = 0;
  for (uint64_t seed = 0; seed < 8; ++seed)
    for (const Named &named : kPrograms) {
      setSeed(seed);
      SCOPED_TRACE(std::string(named.name) + ", seed " + std::to_string(seed));
      int steps = 0;
      EXPECT_EQ(racesWithout(-1, named.program, &steps), 0);
      for (int removed = 0; removed < steps; ++removed)
        EXPECT_GT(racesWithout(removed, named.program), 0) << "without step " << removed;
      removedSteps += steps;
    }
  EXPECT_EQ(removedSteps, 8 * 24);
}

// A declaration that lacks hides a race; isolation finds it by what the launch then reads, or may not write.
TEST_F(RacesDeathTest, OfRemovedDeclarationsAreFoundByIsolation) {
  const Place p;
  setIsolation(true);
  launch("copy", copy_kernel, cover(kCount, 32), p.streams[0], out(p.b, kCount), static_cast<const float *>(p.a),
         kCount);
  float first = 0;
  check(cudaDeviceSynchronize(), "wait");
  check(cudaMemcpy(&first, p.b, sizeof first, cudaMemcpyDeviceToHost), "copy");
  EXPECT_TRUE(std::isnan(first));
  const auto copyAndWait = [&p] { // it may run as late as there
    launch("copy", copy_kernel, cover(kCount, 32), p.streams[0], p.b, in(p.a, kCount), kCount);
    check(cudaDeviceSynchronize(), "wait");
  };
  EXPECT_DEATH(copyAndWait(), "'copy' writes where it does not declare it");
}

// Both launches by name, their streams, and which of them writes.
TEST_F(Races, AreToldInFull) {
  const Place p;
  EXPECT_EQ(racesFound(), 0);
  p.copy(0, p.b, p.a);
  check(cudaMemsetAsync(p.c, 0, kBytes, p.streams[1]), "fill");
  EXPECT_EQ(racesFound(), 0);
  ::testing::internal::CaptureStderr();
  check(cudaMemcpyAsync(p.d, p.b, kBytes, cudaMemcpyDeviceToDevice, p.streams[1]), "copy");
  const std::string printed = ::testing::internal::GetCapturedStderr();
  EXPECT_EQ(printed, lastRace() + "\n");
  const std::string pattern =
      "race: 'a copy' \\(stream [0-9]+\\) reads what 'copy' \\(stream [0-9]+\\) writes; no event "
      "orders them\n";
  EXPECT_TRUE(::testing::internal::RE::FullMatch(printed, pattern)) << printed;
  EXPECT_EQ(racesFound(), 1);
}

// Launches on bytes side by side do not meet.
TEST_F(Races, AreOfBytesNotOfAllocations) {
  const Place p;
  for (int i = 0; i < 3; ++i)
    check(cudaMemsetAsync(p.a + 16 * i, 0, 16 * sizeof(float), p.streams[i]), "fill");
  EXPECT_EQ(racesFound(), 0);
  ::testing::internal::CaptureStderr();
  check(cudaMemsetAsync(p.a + 15, 0, 2 * sizeof(float), p.streams[2]), "fill");
  ::testing::internal::GetCapturedStderr();
  EXPECT_EQ(racesFound(), 2);
}

// Readers do not race; a writer behind one of them does with the other.
TEST_F(Races, AreRememberedOfAllReaders) {
  const Place p;
  for (int round = 0; round < 3; ++round) {
    p.copy(0, p.b, p.a);
    p.copy(1, p.c, p.a);
  }
  p.record(0, 0)();
  p.wait(2, 0)();
  EXPECT_EQ(racesFound(), 0);
  ::testing::internal::CaptureStderr();
  check(cudaMemsetAsync(p.a, 0, kBytes, p.streams[2]), "fill");
  ::testing::internal::GetCapturedStderr();
  EXPECT_EQ(racesFound(), 1); // with the last of the second stream, which stands for those before it
}

// A program that raced does not end well.
TEST_F(RacesDeathTest, BecomeTheExitCode) {
  const auto raceAndExit = [] {
    const Place p;
    p.copy(0, p.b, p.a);
    p.copy(1, p.c, p.b);
    std::exit(0);
  };
  EXPECT_EXIT(raceAndExit(), ::testing::ExitedWithCode(5), "race: 'copy' .*\n1 race\n");
}

} // namespace
} // namespace echelon::cuda
