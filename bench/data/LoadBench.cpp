// Seconds that a data source takes to open: to find, unpack and check its files.
//
//   bench_load mnist|cifar10 PATH [FOLDER]     PATH counts from FOLDER; start.py calls it

#include "runtime/data/DataSource.h"

#include <chrono>
#include <cstdio>
#include <string>

using namespace echelon::runtime;

int main(int argc, char **argv) {
  if (argc < 3) {
    std::fprintf(stderr, "usage: bench_load mnist|cifar10 PATH [FOLDER]\n");
    return 2;
  }
  DataSpec spec;
  spec.kind = argv[1];
  spec.paths = {argv[2]};
  const auto begin = std::chrono::steady_clock::now();
  DataError error;
  const auto source = openData(spec, {}, 0, argc > 3 ? argv[3] : "", error);
  const double seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
  if (!source) {
    std::fprintf(stderr, "bench_load: %s\n", error.text.c_str());
    return 4;
  }
  std::printf("%.4f\n", seconds);
}
