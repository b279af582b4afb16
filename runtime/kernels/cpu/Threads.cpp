#include "runtime/kernels/cpu/Threads.h"
#include <atomic>
#include <cblas.h>
#include <mutex>

extern "C" void omp_set_num_threads(int); // of libgomp, whose header other compilers do not find

namespace echelon::runtime {
namespace {
std::atomic<int> wanted{1};
std::mutex blasMutex;
int blasThreads = 0; // what OpenBLAS was told, 0: nothing yet
} // namespace

void set_threads(int n) { wanted.store(n < 1 ? 1 : n); }

int threads() { return wanted.load(); }

void apply_threads() {
  thread_local int applied = 0;
  int n = wanted.load(std::memory_order_relaxed);
  if (applied == n)
    return;
  omp_set_num_threads(n);
  std::lock_guard<std::mutex> lock(blasMutex);
  if (blasThreads != n)
    openblas_set_num_threads(blasThreads = n);
  applied = n;
}

} // namespace echelon::runtime
