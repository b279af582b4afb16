// The collectives of programs for GPUs against those of the host: every kind, by NCCL and through the host's memory,
// under several orders of the emulated streams.
#include "UnderSeeds.h"
#include "runtime/cuda/Calls.h"
#include "runtime/cuda/Copy.h"
#include "runtime/cuda/host/Emulation.h"
#include "runtime/launch/Launch.h"
#include "runtime/transport/tcp/Socket.h"

#include <gtest/gtest.h>

#include <cstdlib>
#include <cstring>
#include <functional>
#include <string>
#include <sys/wait.h>
#include <unistd.h>
#include <vector>

namespace echelon::cuda {
namespace {

using runtime::Transport;

/// A program of a mesh (2, 2), of which group 0 is the first axis, 1 the second, 2 both.
runtime::Program programOf() {
  runtime::Program program{};
  program.mesh = {{"a", 2}, {"b", 2}};
  program.groups = {{0}, {1}, {0, 1}};
  program.choices = {{Collective::AllReduce, 0, Algorithm::ring},
                     {Collective::AllGather, 0, Algorithm::native},
                     {Collective::AllReduce, 1, Algorithm::tree},
                     {Collective::AllToAll, 1, Algorithm::native}};
  program.tuner = {{Collective::AllReduce, 2, "ring", "ll128", 0, 32}, {Collective::AllReduce, 2, "tree", "", 0, 0}};
  program.device = device;
  return program;
}

/// Runs `body` on four ranks, each with a device.
int onRanks(const std::string &transport, double deadline, const std::function<void(Host &, Rank &)> &body) {
  static const runtime::Program program = programOf();
  runtime::LaunchOptions options;
  options.transport = transport;
  options.ranks = 4;
  options.sharedBytesPerRank = 1 << 20;
  options.deadlineSeconds = deadline;
  return runtime::launch(options, [&](Transport &t) {
    Host host(program, t);
    body(host, rankOf(host));
    return testing::Test::HasFailure() ? 1 : 0;
  });
}
void onRanks(const std::string &transport, const std::function<void(Host &, Rank &)> &body) {
  ASSERT_EQ(onRanks(transport, 30, body), 0);
}

template <typename T> T valueOf(int rank, int64_t i) { return T(float((i * 7 + rank * 13) % 11 - 4)); }

/// The same call on the device and on the host: what it leaves in its output.
template <typename T>
void compare(Host &host, Rank &r, int groupIndex, CollectiveCall call, int64_t in, int64_t out, Algorithm algorithm) {
  const Group &group = host.group(groupIndex);
  std::vector<T> from, to;
  for (int64_t i = 0; i < in; ++i)
    from.push_back(valueOf<T>(host.rank(), i));
  for (int64_t i = 0; i < out; ++i)
    to.push_back(T(0.0f));
  const bool isInPlace = call.kind == Collective::AllReduce || call.kind == Collective::Broadcast;
  std::vector<T> expected = isInPlace ? from : to;
  call.type = runtime::ElementTypeOf<T>::value;
  CollectiveCall onHost = call;
  onHost.in = isInPlace ? expected.data() : from.data();
  onHost.out = expected.data();
  runtime::runCollective(host.transport(), group, onHost, algorithm);

  T *memory = nullptr;
  ASSERT_EQ(cudaMalloc(reinterpret_cast<void **>(&memory), size_t(in + out) * sizeof(T)), cudaSuccess);
  const Stream stream = r;
  cudaMemcpyAsync(memory, from.data(), from.size() * sizeof(T), cudaMemcpyHostToDevice, stream);
  call.in = memory;
  call.out = isInPlace ? memory : memory + in;
  r.collectives().begin();
  Ticket ticket = r.collectives().start(group, call, algorithm);
  wait(ticket);
  std::vector<T> result(expected.size());
  cudaMemcpyAsync(result.data(), call.out, result.size() * sizeof(T), cudaMemcpyDeviceToHost, stream);
  cudaStreamSynchronize(stream);
  r.collectives().check();
  for (size_t i = 0; i < result.size(); ++i)
    ASSERT_EQ(double(result[i]), double(expected[i])) << nameOf(call.kind) << " at " << i;
  cudaFree(memory);
}

CollectiveCall callOfKind(Collective kind, int64_t count, int64_t runs = 1, ReduceOp op = Sum) {
  CollectiveCall call;
  call.kind = kind;
  call.count = count;
  call.runs = runs;
  call.op = op;
  call.label = "here";
  return call;
}

template <typename T> void everyKind(Host &host, Rank &r) {
  for (int group : {0, 1, 2}) {
    const int64_t places = host.group(group).size(), n = 12;
    auto check = [&](const CollectiveCall &call, int64_t in, int64_t out) {
      compare<T>(host, r, group, call, in, out, Algorithm::automatic);
    };
    if constexpr (!runtime::isNarrow<T>) {
      for (ReduceOp op : {Sum, Max, Min})
        check(callOfKind(Collective::AllReduce, n, 1, op), n, n);
      check(callOfKind(Collective::ReduceScatter, n), n * places, n);
      check(callOfKind(Collective::ReduceScatter, n, 3), n * places, n);
    }
    check(callOfKind(Collective::AllGather, n), n, n * places);
    check(callOfKind(Collective::AllGather, n, 4), n, n * places);
    check(callOfKind(Collective::AllToAll, n), n * places, n * places);
    check(callOfKind(Collective::Broadcast, n), n, n);
  }
}

void everything(Host &host, Rank &r) {
  everyKind<float>(host, r);
  everyKind<double>(host, r);
  everyKind<int32_t>(host, r);
  everyKind<bf16>(host, r);
  everyKind<fp16>(host, r);
  for (Algorithm algorithm : {Algorithm::bf16_summands, Algorithm::fp16_summands})
    for (int group : {0, 2}) {
      const int64_t places = host.group(group).size(), n = 10; // not a multiple of four ranks
      compare<float>(host, r, group, callOfKind(Collective::AllReduce, n), n, n, algorithm);
      compare<float>(host, r, group, callOfKind(Collective::ReduceScatter, n), n * places, n, algorithm);
      compare<float>(host, r, group, callOfKind(Collective::ReduceScatter, n, 2), n * places, n, algorithm);
    }
}

TEST(Collectives, ByNccl) {
  underSeeds([] { onRanks("threads", everything); });
}

// The emulated NCCL knows the ranks of one process alone; those of several go through the host.
TEST(Collectives, ThroughTheHost) {
  onRanks("shm", everything);
  onRanks("tcp", everything);
}

// A rank takes the device that its launcher's number among the ranks of a machine says.
TEST(Collectives, DevicesByLocalRank) {
  std::string error;
  bool isTaken = false;
  const int port = runtime::tcp::listenFor("127.0.0.1", 0, error, isTaken).own().port;
  std::vector<pid_t> ranks;
  for (int rank = 0; rank < 4; ++rank) {
    ranks.push_back(fork());
    if (ranks.back() > 0)
      continue;
    for (const auto &[name, value] : std::vector<std::pair<const char *, int>>{
             {"RANK", rank}, {"WORLD_SIZE", 4}, {"LOCAL_RANK", 3 - rank}, {"MASTER_PORT", port}})
      setenv(name, std::to_string(value).c_str(), 1);
    setenv("MASTER_ADDR", "localhost", 1);
    _exit(onRanks("tcp", 30, [rank](Host &, Rank &) {
      int device = -1;
      cudaGetDevice(&device);
      EXPECT_EQ(device, 3 - rank);
    }));
  }
  for (const pid_t rank : ranks) {
    int status = -1;
    waitpid(rank, &status, 0);
    EXPECT_EQ(status, 0);
  }
}

/// A rank's own row lies where it is among the rows of all.
void inPlace(Host &host, Rank &r) {
  const Group &group = r.group(2);
  const int64_t places = group.size(), n = 6;
  float *rows = nullptr;
  ASSERT_EQ(cudaMalloc(reinterpret_cast<void **>(&rows), size_t(places * n) * sizeof(float)), cudaSuccess);
  const Stream stream = r;
  float *own = rows + group.index * n;
  r.collectives().begin();
  fill(stream, own, n, float(group.index + 1));
  all_gather(r, group, rows, own, n, "here");          // row i is i + 1
  reduce_scatter(r, group, own, rows, n, Sum, "here"); // four times that
  float result[6] = {};
  cudaMemcpyAsync(result, own, sizeof result, cudaMemcpyDeviceToHost, stream);
  cudaStreamSynchronize(stream);
  for (float x : result)
    EXPECT_EQ(x, float(places * (group.index + 1))) << "rank " << host.rank();
  cudaFree(rows);
}
TEST(Collectives, InPlace) {
  underSeeds([] { onRanks("threads", inPlace); });
  onRanks("shm", inPlace);
}

// A collective that is only started goes on beside what is computed, in the stream of its group.
// NCCL's tuner hears of each group what the program says of it.
TEST(Collectives, ByTheChosenAlgorithm) {
  onRanks("threads", [](Host &host, Rank &r) {
    const auto check = [&](int group, int64_t count, const char *expected) {
      CollectiveCall call;
      call.kind = Collective::AllReduce;
      call.count = count;
      compare<float>(host, r, group, call, count, count, Algorithm::automatic);
      EXPECT_EQ(algorithmOfLastCollective(), expected);
    };
    check(0, 8, "ring");
    check(1, 8, "tree");
    check(2, 8, "ring ll128"); // of 32 bytes
    check(2, 9, "tree");
  });
}

TEST(Collectives, TwoUnderWay) {
  underSeeds([] {
    onRanks("threads", [](Host &host, Rank &r) {
      float *memory = nullptr;
      ASSERT_EQ(cudaMalloc(reinterpret_cast<void **>(&memory), 3 * 64 * sizeof(float)), cudaSuccess);
      const Stream stream = r;
      const std::vector<float> ones(64, float(host.rank() + 1));
      for (int i = 0; i < 2; ++i)
        cudaMemcpyAsync(memory + i * 64, ones.data(), sizeof(float) * 64, cudaMemcpyHostToDevice, stream);
      r.collectives().begin();
      Ticket first = all_reduce_start(r, r.group(0), memory, 64, Sum, "here");
      Ticket second = all_reduce_start(r, r.group(1), memory + 64, 64, Sum, "there");
      fill(stream, memory + 128, 64, 1.0f);
      wait(second);
      wait(first);
      add_strided(stream, memory + 128, {1}, memory, {1}, {64});
      add_strided(stream, memory + 128, {1}, memory + 64, {1}, {64});
      std::vector<float> sums(64);
      cudaMemcpyAsync(sums.data(), memory + 128, sizeof(float) * 64, cudaMemcpyDeviceToHost, stream);
      cudaStreamSynchronize(stream);
      const int a = host.rank() / 2, b = host.rank() % 2;
      // ranks are numbered a * 2 + b, and give their number plus one
      EXPECT_EQ(sums[0], float(1 + (2 * b + 4) + (4 * a + 3)));
      cudaFree(memory);
    });
  });
}

/// What the ranks' functions below compute with; a rank is a thread.
thread_local float *numbers = nullptr;
void makeNumbers() { ASSERT_EQ(cudaMalloc(reinterpret_cast<void **>(&numbers), 64 * sizeof(float)), cudaSuccess); }
void sumOverAll(Rank &r) {
  fill(static_cast<Stream>(r), numbers, 64, 1.0f);
  Ticket ticket = all_reduce_start(r, r.group(2), numbers, 64, Sum, "spec.ech:12");
  wait(ticket);
  add_strided(static_cast<Stream>(r), numbers, {1}, numbers + 32, {1}, {32});
}

// From its second run on a function is a graph, collectives and all.
TEST(Collectives, AsGraph) {
  underSeeds([] {
    onRanks("threads", [](Host &host, Rank &r) {
      makeNumbers();
      for (int64_t step = 0; step < 4; ++step) {
        host.beginTraining(step);
        run(host, sumOverAll);
        float first = 0;
        cudaMemcpyAsync(&first, numbers, sizeof first, cudaMemcpyDeviceToHost, r);
        cudaStreamSynchronize(r);
        EXPECT_EQ(first, 8);
      }
      cudaFree(numbers);
    });
  });
}

// A rank that others wait for in vain: the first of them whose patience ends says what it waited for and ends what is
// under way, and so the others'. Launched one by one, and in a graph.
TEST(CollectivesDeathTest, OneThatDoesNotCome) {
  for (int64_t steps : {1, 3}) {
    testing::internal::CaptureStderr();
    const int code = onRanks("threads", 0.25, [=](Host &host, Rank &) {
      makeNumbers();
      for (int64_t step = 0; step < steps; ++step) {
        host.beginTraining(step);
        if (host.rank() == 3 && step + 1 == steps)
          return;
        run(host, sumOverAll);
      }
    });
    EXPECT_EQ(code, 4);
    const std::string said = testing::internal::GetCapturedStderr();
    EXPECT_NE(said.find("all_reduce of 64 (spec.ech:12) in step " + std::to_string(steps)), std::string::npos) << said;
  }
}

} // namespace
} // namespace echelon::cuda
