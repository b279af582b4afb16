// Speed of the kernels on one core: bench_kernels [gemm elementwise rows copies attention conv optimizer]. Each stands
// beside its limit, measured in the same run, and beside its reference (what `reference::` or the plain loop takes).
// "of the limit": of the core's peak, or of the rate at which a loop moves the same bytes to and from memory and does
// nothing else. Where sizes fit the cache that loop does too. Rates count bytes loaded and stored; a line that is
// written without having been read is read all the same, in the limit as well.
#include "Bench.h"
#include <cstdio>
#include <cstring>

using namespace echelon::bench;

int main(int argc, char **argv) {
  struct Part {
    const char *name;
    void (*run)();
  };
  const Part parts[] = {{"gemm", gemms},          {"elementwise", elementwise}, {"rows", rows},
                        {"copies", copies},       {"attention", attentions},    {"conv", convs},
                        {"optimizer", optimizers}};
  for (int i = 1; i < argc; ++i)
    if (std::none_of(std::begin(parts), std::end(parts),
                     [&](const Part &p) { return !std::strcmp(argv[i], p.name); })) {
      std::fprintf(stderr,
                   "usage: bench_kernels [gemm] [elementwise] [rows] [copies] [attention] [conv] [optimizer]\n");
      return 2;
    }
  peak = peakFlops();
  const double far = 128 << 20; // bytes, four times the cache
  auto rate = [](const Traffic &t) { return t.bytes() / fastest(StreamLoop(t)) * 1e-9; };
  std::printf("one core: %.1f GFLOP/s in float; memory, GB/s: read %.1f, copy %.1f, triad %.1f\n", peak,
              rate(Traffic().read(far)), rate(Traffic().read(far).write(far)), rate(Traffic().read(far).update(far)));
  for (const Part &part : parts) {
    bool wanted = argc == 1;
    for (int i = 1; i < argc; ++i)
      wanted |= !std::strcmp(argv[i], part.name);
    if (wanted)
      part.run();
  }
}
