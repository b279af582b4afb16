// How long a snapshot stops training, beside a memcpy of the state and the same snapshot written within the step.
//
//   bench_save RANKS MEGABYTES DIRECTORY ROUNDS [split [mpi]]     snapshot.py calls it; mpi: under mpirun
//
// MEGABYTES of parameters and twice as much of an optimizer on each rank; with `split` each rank holds its own part of
// them, else all hold the same, which rank 0 alone copies. In each round rank 0 takes, in turns: memcpy of what ranks
// copy to buffers of the same kind of memory, that have their pages, until all are through; SnapshotWriter::begin; from
// there until it is on disk; saveSnapshot. Prints a line of the four in ms a round, before them one with the bytes that
// rank 0 copies and those of the snapshot.

#include "runtime/collectives/Collectives.h"
#include "runtime/launch/Launch.h"
#include "runtime/program/Clock.h"
#include "runtime/snapshot/Snapshot.h"
#include "runtime/snapshot/SnapshotWriter.h"

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>

using namespace echelon::runtime;

namespace {

Program programOf(int ranks, int64_t megabytes, bool split) {
  Program program;
  program.name = "bench";
  program.mesh = {{"dp", ranks}};
  program.checkpoint.directory = "ckpt";
  const int64_t rows = megabytes * 1000 * 1000 / 4 / 1000 * (split ? ranks : 1), columns = 1000;
  const Layout layout = {{{"a", rows, split ? std::vector<int>{0} : std::vector<int>{}}, {"b", columns, {}}}, {}};
  for (const char *path : {"w", "optimizer.m.w", "optimizer.v.w"}) {
    const Stored::Kind kind = program.stored.empty() ? Stored::Param : Stored::Optimizer;
    program.stored.push_back({kind, path, {"a", "b"}, layout, ElementType::Float32, {}, program.stateBytes});
    program.stateBytes += (localCount(layout, program.mesh) * 4 + 63) / 64 * 64;
  }
  return program;
}

void takeTurns(Rank &rank, bool copies, const std::string &directory, int rounds) {
  const Program &program = rank.program();
  const size_t bytes = size_t(program.stateBytes);
  std::memset(rank.state<std::byte>(0), 1, bytes);
  std::byte *buffer = static_cast<std::byte *>(rank.transport().allocate(bytes));
  std::memset(buffer, 2, bytes);
  SnapshotWriter writer(rank, directory + "/beside", 1, true);
  const auto secondsOf = [&](auto &&act) {
    barrier(rank.transport(), rank.transport().world());
    const double began = secondsNow();
    act();
    return secondsNow() - began;
  };
  for (int64_t round = 1; round <= rounds; ++round) {
    const double copied = secondsOf([&] {
      if (copies)
        std::memcpy(buffer, rank.state<std::byte>(0), bytes);
      barrier(rank.transport(), rank.transport().world());
    }),
                 stopped = secondsOf([&] { writer.begin(round); }), written = secondsOf([&] { writer.finish(); }),
                 within = secondsOf([&] { saveSnapshot(rank, directory + "/within", round, 1); });
    if (rank.rank() == 0)
      std::printf("%.3f %.3f %.3f %.3f\n", copied * 1e3, stopped * 1e3, written * 1e3, within * 1e3);
  }
}

} // namespace

int main(int argc, char **argv) {
  if (argc < 5) {
    std::fprintf(stderr, "usage: bench_save RANKS MEGABYTES DIRECTORY ROUNDS [split [mpi]]\n");
    return 2;
  }
  LaunchOptions options;
  options.ranks = std::atoi(argv[1]);
  const Program program = programOf(options.ranks, std::atoll(argv[2]), argc > 5);
  options.transport = argc > 6 ? argv[6] : "shm";
  options.sharedBytesPerRank = arenaBytes(program) + 2 * copyBytes(program);
  options.deadlineSeconds = 100;
  return launch(options, [&](Transport &transport) {
    Rank rank(program, transport);
    if (rank.rank() == 0)
      std::printf("%lld %lld\n", static_cast<long long>(program.stateBytes),
                  static_cast<long long>(program.stateBytes * (argc > 5 ? options.ranks : 1)));
    takeTurns(rank, argc > 5 || rank.rank() == 0, argv[3], std::atoi(argv[4]));
    return 0;
  });
}
