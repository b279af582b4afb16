// bench_floor LAYERS HEADS WIDTH LENGTH WORDS BATCH openblas|onednn [threads|batch|columns]
//
// What a training step of a GPT costs at least: every forward and backward matrix product by a library (attention's
// over the whole score matrix, q, k and v in one), softmax cross-entropy, and a fused AdamW over all parameters;
// nothing else, no bias, norm, activation, softmax of attention, embedding, clipping or message. Layers have weights,
// gradients, moments and activations of their own, as training has; fp32.
//
// On two cores: `threads`, the library's two threads in one process; `batch` and `columns`, two processes of one thread
// that each do half of everything, without a message but for a meeting after each step: half of the batch and of the
// optimizer's parameters; or half of the heads, of the feed-forward columns and of the vocabulary.
//
// Says "ready" after its first steps. For each line SECONDS that it reads it works so long and prints its processor
// seconds a step, then the time of each step.
#include "Step.h"
#include <cblas.h>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <ctime>
#include <memory>
#include <pthread.h>
#include <signal.h>
#include <sys/prctl.h>
#include <unistd.h>

extern "C" void omp_set_num_threads(int); // of libgomp, whose header other compilers do not find

using namespace echelon::bench;

namespace {

double now() { return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count(); }

double processSeconds() {
  timespec t;
  clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
  return double(t.tv_sec) + 1e-9 * double(t.tv_nsec);
}

/// What two processes share: a meeting after each step, and how many steps the next block has.
struct Shared {
  pthread_barrier_t meeting;
  long steps;
};

Shared *makeShared(unsigned processes) {
  void *block = mmap(nullptr, sizeof(Shared), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  auto *shared = static_cast<Shared *>(block);
  pthread_barrierattr_t attributes;
  pthread_barrierattr_init(&attributes);
  pthread_barrierattr_setpshared(&attributes, PTHREAD_PROCESS_SHARED);
  pthread_barrier_init(&shared->meeting, &attributes, processes);
  return shared;
}

double timed(Step &step, Shared *shared) {
  double began = now();
  step.run();
  pthread_barrier_wait(&shared->meeting);
  return now() - began;
}

/// The second process: as many steps as the first says.
[[noreturn]] void follow(Step &step, Shared *shared) {
  for (;;) {
    pthread_barrier_wait(&shared->meeting);
    for (long i = 0, n = shared->steps; i < n; ++i)
      timed(step, shared);
  }
}

void block(Step &step, Shared *shared, long steps, bool print) {
  shared->steps = steps;
  pthread_barrier_wait(&shared->meeting);
  std::vector<double> times;
  double used = processSeconds();
  for (long i = 0; i < steps; ++i)
    times.push_back(timed(step, shared));
  if (!print)
    return;
  std::printf("%.6f", (processSeconds() - used) / double(steps));
  for (double t : times)
    std::printf(" %.6f", t);
  std::printf("\n");
  std::fflush(stdout);
}

} // namespace

int main(int argc, char **argv) {
  const char *form = argc > 8 ? argv[8] : "";
  bool openblas = argc > 7 && !std::strcmp(argv[7], "openblas"), onednn = argc > 7 && !std::strcmp(argv[7], "onednn");
  bool threads = !std::strcmp(form, "threads"), batch = !std::strcmp(form, "batch");
  bool columns = !std::strcmp(form, "columns");
  if ((!openblas && !onednn) || (*form && !threads && !batch && !columns)) {
    std::fprintf(stderr, "usage: bench_floor LAYERS HEADS WIDTH LENGTH WORDS BATCH openblas|onednn "
                         "[threads|batch|columns]\n");
    return 2;
  }
  Sizes sizes{std::atoi(argv[1]), std::atoi(argv[2]), std::atoi(argv[3]),
              std::atoi(argv[4]), std::atoi(argv[5]), std::atoi(argv[6])};
  sizes.ways = batch || columns ? 2 : 1;
  sizes.columns = columns;
  if (batch)
    sizes.batch /= 2;
  Shared *shared = makeShared(unsigned(sizes.ways));
  if (sizes.ways == 2 && fork() == 0) {
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    sizes.part = 1;
  }
  openblas_set_num_threads(threads ? 2 : 1);
  omp_set_num_threads(threads ? 2 : 1);
  Step step(sizes, openblas ? Library::openblas : Library::onednn, threads ? 2 : 1);
  if (sizes.part == 1)
    follow(step, shared);
  block(step, shared, 2, false);
  double last = now();
  block(step, shared, 1, false);
  last = now() - last;
  std::printf("ready\n");
  std::fflush(stdout);
  for (double seconds; std::scanf("%lf", &seconds) == 1;) {
    long steps = std::max(1L, long(seconds / last));
    double began = now();
    block(step, shared, steps, true);
    last = (now() - began) / double(steps);
  }
  _exit(0);
}
