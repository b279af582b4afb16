// Times of Echelon's collectives by size, and of the memory traffic that each cannot do without.
//
//   bench_collectives RANKS [TRANSPORT [BYTES,...] [COLLECTIVE...]]     run.py beside it calls this and mpi_collectives
//   in turns; all_reduce_ring and the like, which are taken where they are named alone, are of one algorithm, and
//   all_reduce with them
//
// Prints a line a figure: what, bytes, microseconds. The floor of a collective: each rank reads and writes its share of
// the bytes that must be read and written at least, all ranks at once, in memory of its own, used again and again as
// the collective's is; the faster of memcpy and streaming stores, and plain reading where more is read than written.

#include "Windows.h"

#include "runtime/collectives/Collectives.h"
#include "runtime/launch/Launch.h"
#include "runtime/transport/shared/CopyBytes.h"

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>

using namespace echelon::runtime;
using namespace echelon::bench;

// The sum of what is read, so that the reading is not optimised away.
static float readAll(const float *data, int64_t count) {
  float sums[64] = {};
  for (int64_t i = 0; i + 64 <= count; i += 64)
#pragma GCC ivdep
    for (int k = 0; k < 64; ++k)
      sums[k] += data[i + k];
  float sum = 0;
  for (float s : sums)
    sum += s;
  return sum;
}

namespace {

struct Case {
  const char *name;
  std::function<void(int64_t)> call;             // bytes of the whole buffer
  std::function<int64_t(int64_t)> read, written; // by each rank at least
};

class Bench {
public:
  explicit Bench(Transport &t) : t(t), p(t.size()) {
    in = static_cast<float *>(t.allocate(kLargest));
    out = static_cast<float *>(t.allocate(kLargest));
    std::fill(in, in + kLargest / 4, 0.0f);
    std::fill(out, out + kLargest / 4, 0.0f);
    peers.rank = t.rank();
    peers.size = p;
    peers.maximum = [&t](double *values, int count) { all_reduce(t, t.world(), values, count, Max); };
  }

  void run(const Wanted &wanted) {
    if (!wanted.names.empty())
      runByAlgorithm(wanted);
    for (const Case &c : cases(Algorithm::automatic)) {
      if (!wanted.has(c.name))
        continue;
      for (int64_t bytes : wanted.sizes) {
        print(c.name, bytes, microseconds(peers, [&] { c.call(bytes); }));
        if (bytes >= 1 << 20 && c.read(bytes) > 0)
          print((std::string("floor_") + c.name).c_str(), bytes, floorOf(c.read(bytes), c.written(bytes)));
        if (c.read(bytes) == 0)
          break; // it moves nothing
      }
    }
  }

private:
  /// Of each collective one size after the other, by all algorithms in turn: how near two cores are may change in a
  /// run.
  void runByAlgorithm(const Wanted &wanted) {
    const Algorithm all[] = {Algorithm::automatic, Algorithm::ring, Algorithm::tree, Algorithm::butterfly,
                             Algorithm::one_to_all};
    for (size_t i = 0; i < cases(Algorithm::automatic).size(); ++i)
      for (int64_t bytes : wanted.sizes)
        for (Algorithm by : all) {
          const Case c = cases(by)[i];
          const std::string name = c.name;
          const bool isWanted =
              by == Algorithm::automatic ? wanted.has(name + "_ring") : wanted.has(name + "_" + nameOf(by));
          if (isWanted)
            print((by == Algorithm::automatic ? name : name + "_" + nameOf(by)).c_str(), bytes,
                  microseconds(peers, [&] { c.call(bytes); }));
        }
  }

  std::vector<Case> cases(Algorithm by) {
    const Group &g = t.world();
    auto all = [](int64_t n) { return n; };
    auto part = [this](int64_t n) { return n / p; };
    auto others = [this](int64_t n) { return n / p * (p - 1); };
    auto othersPart = [this](int64_t n) { return n / p * (p - 1) / p; };
    auto none = [](int64_t) { return int64_t(0); };
    return {
        {"all_reduce", [&, by](int64_t n) { all_reduce(t, g, in, n / 4, Sum, by); }, all, all},
        {"reduce_scatter", [&, by](int64_t n) { reduce_scatter(t, g, out, in, n / 4 / p, Sum, by); }, all, part},
        {"all_gather", [&, by](int64_t n) { all_gather(t, g, out, in, n / 4 / p, by); }, all, all},
        {"all_to_all", [&, by](int64_t n) { all_to_all(t, g, out, in, n / 4 / p, by); }, all, all},
        {"broadcast", [&, by](int64_t n) { broadcast(t, g, in, n / 4, 0, by); }, others, others},
        {"reduce", [&, by](int64_t n) { reduce(t, g, in, n / 4, Sum, 0, by); }, all, part},
        {"gather", [&, by](int64_t n) { gather(t, g, out, in, n / 4 / p, 0, by); }, part, part},
        {"scatter", [&, by](int64_t n) { scatter(t, g, out, in, n / 4 / p, 0, by); }, part, part},
        {"barrier", [&, by](int64_t) { barrier(t, g, by); }, none, othersPart},
    };
  }

  double floorOf(int64_t read, int64_t written) {
    // Own memory, so that no rank has another's in its cache.
    if (own.empty())
      own.assign(2 * kLargest / 4, 1.0f);
    float *from = own.data(), *to = own.data() + kLargest / 4;
    auto rest = [&] { sink = sink + readAll(from + written / 4, (read - written) / 4); };
    const double copied = microseconds(peers, [&] { std::memcpy(to, from, written), rest(); });
    const double streamed = microseconds(peers, [&] { copyBytes(to, from, written, true), rest(); });
    const double kept = microseconds(peers, [&] { copyBytes(to, from, written, false), rest(); });
    return std::min({copied, streamed, kept});
  }

  void print(const char *what, int64_t bytes, double time) {
    if (t.rank() == 0)
      std::printf("%s %lld %.3f\n", what, static_cast<long long>(bytes), time);
    std::fflush(stdout);
  }

  Transport &t;
  int p;
  Peers peers;
  float *in, *out;
  std::vector<float> own;
  volatile float sink = 0;
};

} // namespace

int main(int argc, char **argv) {
  LaunchOptions options;
  options.ranks = argc > 1 ? std::atoi(argv[1]) : 2;
  if (options.ranks < 1) {
    std::fprintf(stderr, "usage: bench_collectives [RANKS [shm | threads | mpi [BYTES,...] [COLLECTIVE...]]]\n");
    return 2;
  }
  options.transport = argc > 2 ? argv[2] : "shm";
  options.deadlineSeconds = 60;
  options.sharedBytesPerRank = 2 * kLargest;
  const Wanted wanted(3, argc, argv);
  return launch(options, [&](Transport &t) {
    Bench(t).run(wanted);
    return 0;
  });
}
