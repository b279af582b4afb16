// Steps that communicate on a stream of their own, each right as it stands, and named when one wait is removed.
#include "OnRanks.h"

namespace echelon::cuda {
namespace {

using namespace ranks;

__global__ void add_one(float *x) {
  if (element() == 0)
    *x += 1;
}

__global__ void copy_first(float *to, const float *from) {
  if (element() == 0)
    *to = *from;
}

/// A step of training that computes on one stream and communicates on another; waits by number, one of them removed.
class Overlap {
public:
  Overlap(Rank &r, int removed) : compute(r.stream), communicate(streamOfRank(r.rank, 1)), r(r), removed(removed) {
    for (cudaEvent_t &event : events)
      cudaEventCreateWithFlags(&event, cudaEventDisableTiming);
  }
  ~Overlap() {
    cudaDeviceSynchronize();
    for (cudaEvent_t event : events)
      cudaEventDestroy(event);
  }

  /// Wait `number`: `later` goes on behind what `earlier` has now.
  void order(int number, Stream earlier, Stream later) {
    cudaEventRecord(events[number], earlier);
    if (number != removed)
      cudaStreamWaitEvent(later, events[number], 0);
  }
  void sum(float *x) { check(ncclAllReduce(x, x, 1, ncclFloat32, ncclSum, r.world, communicate)); }
  void copy(float *to, const float *from) {
    launch("copy", copy_first, cover(1, 32), compute, out(to, 1), in(from, 1));
  }

  const Stream compute, communicate;
  Rank &r;

private:
  int removed;
  cudaEvent_t events[4];
};

/// Gradients are summed while the next ones are made, and used behind their sum; three steps.
void gradients(Rank &r, int removed) {
  const Buffer<float> g(zeros<float>(1)), h(zeros<float>(1)), w(zeros<float>(1)), v(zeros<float>(1));
  Overlap step(r, removed);
  for (int i = 0; i < 3; ++i) {
    step.copy(g.get(), w.get());
    step.order(0, step.compute, step.communicate);
    step.sum(g.get());
    step.copy(h.get(), v.get());
    step.order(1, step.compute, step.communicate);
    step.sum(h.get());
    step.order(2, step.communicate, step.compute);
    step.copy(w.get(), g.get());
    step.copy(v.get(), h.get());
  }
}

/// A shard goes out as it was made, and the parameters that come back are read behind their arrival.
void shards(Rank &r, int removed) {
  const Buffer<float> whole(zeros<float>(2)), shard(zeros<float>(1)), w(zeros<float>(1));
  Overlap step(r, removed);
  step.copy(whole.get(), w.get());
  step.copy(whole.get() + 1, w.get());
  step.order(0, step.compute, step.communicate);
  check(ncclReduceScatter(whole.get(), shard.get(), 1, ncclFloat32, ncclSum, r.world, step.communicate));
  step.order(1, step.communicate, step.compute);
  step.copy(shard.get(), w.get());
  step.order(2, step.compute, step.communicate);
  check(ncclAllGather(shard.get(), whole.get(), 1, ncclFloat32, r.world, step.communicate));
  step.order(3, step.communicate, step.compute);
  step.copy(w.get(), whole.get() + 1);
}

/// Activations to the next stage, from the one before.
void messages(Rank &r, int removed) {
  const Buffer<float> sent(zeros<float>(1)), received(zeros<float>(1)), w(zeros<float>(1));
  Overlap step(r, removed);
  step.copy(sent.get(), w.get());
  step.order(0, step.compute, step.communicate);
  check(ncclGroupStart());
  check(ncclSend(sent.get(), 1, ncclFloat32, 1 - r.rank, r.world, step.communicate));
  check(ncclRecv(received.get(), 1, ncclFloat32, 1 - r.rank, r.world, step.communicate));
  check(ncclGroupEnd());
  step.order(1, step.communicate, step.compute);
  step.copy(w.get(), received.get());
  step.copy(sent.get(), w.get());
}

/// Of a step that is captured only the wait in its middle can go: without the others the capture is refused.
void captured(Rank &r, int removed) {
  const Buffer<float> g(zeros<float>(1)), w(zeros<float>(1));
  Overlap step(r, removed);
  cudaStreamBeginCapture(step.compute, cudaStreamCaptureModeThreadLocal);
  step.order(1, step.compute, step.communicate);
  step.copy(g.get(), w.get());
  step.order(0, step.compute, step.communicate);
  step.sum(g.get());
  step.order(2, step.communicate, step.compute);
  step.copy(w.get(), g.get());
  cudaGraph_t graph;
  cudaGraphExec_t exec;
  ASSERT_EQ(cudaStreamEndCapture(step.compute, &graph), cudaSuccess);
  ASSERT_EQ(cudaGraphInstantiate(&exec, graph, 0), cudaSuccess);
  for (int i = 0; i < 3; ++i)
    cudaGraphLaunch(exec, step.compute);
  cudaDeviceSynchronize();
  cudaGraphExecDestroy(exec);
  cudaGraphDestroy(graph);
}

// Complete steps have no race; each removed wait makes one on each rank, under all seeds.
TEST(NcclRaces, OfEachRemovedWaitAreNamed) {
  const struct {
    void (*program)(Rank &, int removed);
    int waits;
  } programs[] = {{gradients, 3}, {shards, 4}, {messages, 2}, {captured, 1}};
  for (uint64_t seed = 0; seed < 8; ++seed)
    for (const auto &[program, waits] : programs)
      for (int removed = -1; removed < waits; ++removed) {
        SCOPED_TRACE("seed " + std::to_string(seed) + ", without wait " + std::to_string(removed));
        setSeed(seed);
        ::testing::internal::CaptureStderr();
        onRanks(2, [&, program = program](Rank &r) { program(r, removed); });
        ::testing::internal::GetCapturedStderr();
        if (removed < 0)
          EXPECT_EQ(racesFound(), 0) << lastRace();
        else
          EXPECT_GE(racesFound(), 2);
        forgetRaces();
      }
  setSeed(0);
}

// The text names the operation as the call does.
TEST(NcclRaces, NameTheOperation) {
  ::testing::internal::CaptureStderr();
  onRanks(2, [](Rank &r) {
    const Buffer<float> x({1.0f});
    launch("add one", add_one, cover(1, 32), streamOfRank(r.rank, 1), inout(x.get(), 1));
    check(ncclAllReduce(x.get(), x.get(), 1, ncclFloat32, ncclSum, r.world, r.stream));
    cudaDeviceSynchronize();
  });
  ::testing::internal::GetCapturedStderr();
  EXPECT_TRUE(::testing::internal::RE::PartialMatch(
      lastRace(), "'all_reduce of 1 float by sum \\(rank [01] of 2\\)' .* writes what 'add one' .* writes"))
      << lastRace();
  forgetRaces();
}

} // namespace
} // namespace echelon::cuda
