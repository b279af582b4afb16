// Times of MPI's collectives by size, taken as bench_collectives takes Echelon's.
//
//   mpirun -n RANKS mpi_collectives [BYTES,...] [COLLECTIVE...]     prints a line a figure: what, bytes, microseconds

#include "Windows.h"

#include <cstdio>
#include <mpi.h>
#include <string>

using namespace echelon::bench;

namespace {

struct Case {
  const char *name;
  std::function<void(int)> call; // floats of the whole buffer
};

std::vector<Case> cases(float *in, float *out, const Peers &peers) {
  const int p = peers.size;
  const bool isRoot = peers.rank == 0;
  const MPI_Comm all = MPI_COMM_WORLD;
  return {
      {"all_reduce", [=](int n) { MPI_Allreduce(MPI_IN_PLACE, in, n, MPI_FLOAT, MPI_SUM, all); }},
      {"reduce_scatter", [=](int n) { MPI_Reduce_scatter_block(in, out, n / p, MPI_FLOAT, MPI_SUM, all); }},
      {"all_gather", [=](int n) { MPI_Allgather(in, n / p, MPI_FLOAT, out, n / p, MPI_FLOAT, all); }},
      {"all_to_all", [=](int n) { MPI_Alltoall(in, n / p, MPI_FLOAT, out, n / p, MPI_FLOAT, all); }},
      {"broadcast", [=](int n) { MPI_Bcast(in, n, MPI_FLOAT, 0, all); }},
      {"reduce",
       [=](int n) { MPI_Reduce(isRoot ? MPI_IN_PLACE : in, isRoot ? in : nullptr, n, MPI_FLOAT, MPI_SUM, 0, all); }},
      {"gather", [=](int n) { MPI_Gather(in, n / p, MPI_FLOAT, out, n / p, MPI_FLOAT, 0, all); }},
      {"scatter", [=](int n) { MPI_Scatter(in, n / p, MPI_FLOAT, out, n / p, MPI_FLOAT, 0, all); }},
      {"barrier", [=](int) { MPI_Barrier(all); }},
  };
}

} // namespace

int main(int argc, char **argv) {
  MPI_Init(&argc, &argv);
  const Wanted wanted(1, argc, argv);
  Peers peers;
  MPI_Comm_rank(MPI_COMM_WORLD, &peers.rank);
  MPI_Comm_size(MPI_COMM_WORLD, &peers.size);
  peers.maximum = [](double *values, int count) {
    MPI_Allreduce(MPI_IN_PLACE, values, count, MPI_DOUBLE, MPI_MAX, MPI_COMM_WORLD);
  };
  {
    std::vector<float> in(kLargest / 4, 0.0f), out(kLargest / 4, 0.0f);
    for (const Case &c : cases(in.data(), out.data(), peers)) {
      if (!wanted.has(c.name))
        continue;
      for (int64_t bytes : wanted.sizes) {
        const double time = microseconds(peers, [&] { c.call(static_cast<int>(bytes / 4)); });
        if (peers.rank == 0)
          std::printf("%s %lld %.3f\n", c.name, static_cast<long long>(bytes), time);
        if (c.name == std::string("barrier"))
          break;
      }
    }
  }
  MPI_Finalize();
}
