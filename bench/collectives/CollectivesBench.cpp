// Median times of the collectives by size, and how many memcpys of the same bytes each is worth.
//
//   bench_collectives [RANKS [TRANSPORT]]     2 shm unless told: two ranks, processes
//   mpirun -n 2 bench_collectives 2 mpi
//
// All ranks copy at the same time for the memcpy column, as they all work at a collective at the same time. `own` is
// memory of the process, `shared` comes from Transport::allocate.

#include "runtime/collectives/Collectives.h"
#include "runtime/launch/Launch.h"

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <string>
#include <vector>

using namespace echelon::runtime;
using Clock = std::chrono::steady_clock;

// The slowest rank's median time of a call, in microseconds.
static double medianMicroseconds(Transport &t, int64_t bytes, const std::function<void()> &call) {
  const int calls = static_cast<int>(std::clamp<int64_t>((int64_t(64) << 20) / std::max<int64_t>(bytes, 1), 5, 2000));
  std::vector<double> times;
  call();
  for (int i = 0; i < calls; ++i) {
    barrier(t, t.world());
    const auto begin = Clock::now();
    call();
    times.push_back(std::chrono::duration<double, std::micro>(Clock::now() - begin).count());
  }
  std::nth_element(times.begin(), times.begin() + calls / 2, times.end());
  double median = times[calls / 2];
  all_reduce(t, t.world(), &median, 1, Max);
  return median;
}

static void bench(Transport &t) {
  const int p = t.size();
  const int64_t largest = int64_t(64) << 20;
  const bool isDirect = t.isDirect();
  auto *sharedIn = static_cast<float *>(t.allocate(largest)), *sharedOut = static_cast<float *>(t.allocate(largest));
  std::vector<float> ownIn(largest / 4, 1.0f), ownOut(largest / 4, 1.0f);
  std::fill(sharedIn, sharedIn + largest / 4, 1.0f);
  std::fill(sharedOut, sharedOut + largest / 4, 1.0f);
  const Group &g = t.world();

  struct Column {
    const char *name;
    std::function<void(int64_t)> call; // bytes
  };
  auto zero = [](float *data, int64_t n) { data[0] = n ? 1.0f : 0.0f; };
  std::vector<Column> columns = {
      {"memcpy", [&](int64_t bytes) { std::memcpy(ownOut.data(), ownIn.data(), bytes); }},
      {"all_reduce own",
       [&](int64_t bytes) {
         zero(ownIn.data(), bytes);
         all_reduce(t, g, ownIn.data(), bytes / 4, Max);
       }},
      {"all_reduce shared", [&](int64_t bytes) { all_reduce(t, g, sharedIn, bytes / 4, Max); }},
      {"reduce_scatter", [&](int64_t bytes) { reduce_scatter(t, g, sharedOut, sharedIn, bytes / 4 / p, Sum); }},
      {"all_gather", [&](int64_t bytes) { all_gather(t, g, sharedOut, sharedIn, bytes / 4 / p); }},
      {"broadcast", [&](int64_t bytes) { broadcast(t, g, sharedIn, bytes / 4, 0); }},
      {"ring", [&](int64_t bytes) { all_reduce(t, g, sharedIn, bytes / 4, Max, Algorithm::ring); }},
      {"butterfly", [&](int64_t bytes) { all_reduce(t, g, sharedIn, bytes / 4, Max, Algorithm::butterfly); }},
  };
  if (t.rank() == 0) {
    std::printf("%d ranks over %s: microseconds (x memcpy); ring and butterfly are all_reduces%s\n%10s", p, t.name(),
                isDirect ? "" : "; all on own memory", "bytes");
    for (const Column &column : columns)
      std::printf("%20s", column.name);
    std::printf("\n");
  }
  for (int64_t bytes = 1 << 10; bytes <= largest; bytes *= 4) {
    double copy = 0;
    if (t.rank() == 0)
      std::printf("%10lld", static_cast<long long>(bytes));
    for (const Column &column : columns) {
      const double time = medianMicroseconds(t, bytes, [&] { column.call(bytes); });
      if (copy == 0)
        copy = time;
      if (t.rank() == 0)
        std::printf("%12.2f (%5.1f)", time, time / copy);
    }
    if (t.rank() == 0)
      std::printf("\n");
    std::fflush(stdout);
  }
}

int main(int argc, char **argv) {
  LaunchOptions options;
  options.ranks = argc > 1 ? std::atoi(argv[1]) : 2;
  if (options.ranks < 1 || argc > 3) {
    std::fprintf(stderr, "usage: bench_collectives [RANKS [shm | threads | mpi]]\n");
    return 2;
  }
  options.transport = argc > 2 ? argv[2] : "shm";
  options.deadlineSeconds = 60;
  options.sharedBytesPerRank = size_t(130) << 20;
  return launch(options, [](Transport &t) {
    bench(t);
    return 0;
  });
}
