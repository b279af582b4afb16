// The checks of CollectivesTest as ranks of MPI: `mpirun -n N runtime_collectives_mpi all`, and `late`, in which the
// last rank does not come.

#include "CollectiveChecks.h"
#include "runtime/launch/Launch.h"

#include <cstdio>
#include <cstdlib>
#include <thread>

using namespace echelon::runtime;
using namespace echelon::runtime::test;

static void checkAll(Transport &t) {
  const std::vector<Algorithm> algorithms = {Algorithm::native, Algorithm::ring, Algorithm::butterfly, Algorithm::tree,
                                             Algorithm::one_to_all};
  checkGroup(t, t.world(), algorithms, false, Extent::Large);
  checkSameBits(t, t.world(), algorithms);
  checkNan(t, t.world(), algorithms);
  if (t.size() == 4) {
    const Group rows = t.makeGroup({2, 2}, {1}), columns = t.makeGroup({2, 2}, {0});
    checkGroup(t, rows, {Algorithm::automatic, Algorithm::ring}, false, Extent::Some);
    checkGroup(t, columns, {Algorithm::automatic, Algorithm::ring}, false, Extent::Some);
  }
  std::vector<Ticket> tickets;
  std::vector<std::vector<float>> data(6);
  for (int i = 0; i < 6; ++i) {
    data[i].assign(1000 * (i + 1), float(t.rank()));
    tickets.push_back(all_reduce_start(t, t.world(), data[i].data(), data[i].size(), Max,
                                       i % 2 ? Algorithm::native : Algorithm::ring));
  }
  for (int i = 5; i >= 0; --i) {
    tickets[i].wait();
    for (size_t j = 0; j < data[i].size(); ++j)
      expectSame(data[i].data(), float(t.size() - 1), j, "started");
  }
}

int main(int argc, char **argv) {
  LaunchOptions options;
  options.transport = "mpi";
  options.ranks = std::atoi(std::getenv("OMPI_COMM_WORLD_SIZE"));
  const bool isLate = argc > 1 && std::string(argv[1]) == "late";
  options.deadlineSeconds = isLate ? 0.5 : 30;
  return launch(options, [&](Transport &t) {
    try {
      if (!isLate) {
        checkAll(t);
        return 0;
      }
      float value = 1;
      t.setStep(5);
      if (t.rank() == t.size() - 1)
        std::this_thread::sleep_for(std::chrono::seconds(20));
      all_reduce(t, t.world(), &value, 1, Sum, "late.ech:3");
      return 0;
    } catch (const std::string &message) {
      std::fprintf(stderr, "rank %d: %s\n", t.rank(), message.c_str());
      return 9;
    }
  });
}
