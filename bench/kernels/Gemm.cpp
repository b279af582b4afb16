// Matrix products as training steps have them, by both libraries and by tiles, in turns.
#include "runtime/kernels/Gemm.h"
#include "Bench.h"
#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstdlib>

namespace echelon::bench {
using namespace runtime;

namespace {

struct Shape {
  const char *what;
  int64_t m, n, k;
  Form form;
};

constexpr Form nn = Form::nn, nt = Form::nt, tn = Form::tn;
const Shape kShapes[] = {
    {"MLP 784 -> 128, 32 rows", 32, 128, 784, nn},
    {"its dw", 784, 128, 32, tn},
    {"MLP head 128 -> 10", 32, 10, 128, nn},
    {"its dx", 32, 128, 10, nt},
    {"its dw", 128, 10, 32, tn},
    {"attention scores 64 x 64 x 32", 64, 64, 32, nt},
    {"attention output 64 x 32 x 64", 64, 32, 64, nn},
    {"attention dv 64 x 32 x 64", 64, 32, 64, tn},
    {"attention scores 64 x 256 x 64", 64, 256, 64, nt},
    {"attention output 64 x 64 x 256", 64, 64, 256, nn},
    {"attention dk 256 x 64 x 64", 256, 64, 64, tn},
    {"0.84M, 256 rows, 128 -> 128", 256, 128, 128, nn},
    {"its dx", 256, 128, 128, nt},
    {"its dw", 128, 128, 256, tn},
    {"0.84M, 256 rows, 128 -> 512", 256, 512, 128, nn},
    {"its dx", 256, 128, 512, nt},
    {"its dw", 128, 512, 256, tn},
    {"0.84M, 256 rows, 512 -> 128", 256, 128, 512, nn},
    {"its dx", 256, 512, 128, nt},
    {"its dw", 512, 128, 256, tn},
    {"0.84M, 4096 rows, 128 -> 128", 4096, 128, 128, nn},
    {"its dx", 4096, 128, 128, nt},
    {"its dw", 128, 128, 4096, tn},
    {"0.84M, 4096 rows, 128 -> 512", 4096, 512, 128, nn},
    {"its dx", 4096, 128, 512, nt},
    {"its dw", 128, 512, 4096, tn},
    {"0.84M, 4096 rows, 512 -> 128", 4096, 128, 512, nn},
    {"its dx", 4096, 512, 128, nt},
    {"its dw", 512, 128, 4096, tn},
    {"0.84M over tp = 2, 128 -> 64", 4096, 64, 128, nn},
    {"its dx", 4096, 128, 64, nt},
    {"its dw", 128, 64, 4096, tn},
    {"0.84M over tp = 2, 64 -> 128", 4096, 128, 64, nn},
    {"its dx", 4096, 64, 128, nt},
    {"its dw", 64, 128, 4096, tn},
    {"10.8M, 1024 rows, 384 -> 384", 1024, 384, 384, nn},
    {"its dx", 1024, 384, 384, nt},
    {"its dw", 384, 384, 1024, tn},
    {"10.8M, 1024 rows, 384 -> 1536", 1024, 1536, 384, nn},
    {"its dx", 1024, 384, 1536, nt},
    {"its dw", 384, 1536, 1024, tn},
    {"10.8M, 1024 rows, 1536 -> 384", 1024, 384, 1536, nn},
    {"its dx", 1024, 1536, 384, nt},
    {"its dw", 1536, 384, 1024, tn},
    {"124M, 128 rows, 768 -> 768", 128, 768, 768, nn},
    {"its dx", 128, 768, 768, nt},
    {"its dw", 768, 768, 128, tn},
    {"124M, 128 rows, 768 -> 3072", 128, 3072, 768, nn},
    {"its dx", 128, 768, 3072, nt},
    {"its dw", 768, 3072, 128, tn},
    {"124M, 128 rows, 3072 -> 768", 128, 768, 3072, nn},
    {"its dx", 128, 3072, 768, nt},
    {"its dw", 3072, 768, 128, tn},
    {"124M, 256 rows, 768 -> 768", 256, 768, 768, nn},
    {"its dx", 256, 768, 768, nt},
    {"its dw", 768, 768, 256, tn},
    {"124M, 256 rows, 768 -> 3072", 256, 3072, 768, nn},
    {"its dx", 256, 768, 3072, nt},
    {"its dw", 768, 3072, 256, tn},
    {"124M, 256 rows, 3072 -> 768", 256, 768, 3072, nn},
    {"its dx", 256, 3072, 768, nt},
    {"its dw", 3072, 768, 256, tn},
    {"124M, 1024 rows, 768 -> 768", 1024, 768, 768, nn},
    {"its dx", 1024, 768, 768, nt},
    {"its dw", 768, 768, 1024, tn},
    {"124M, 1024 rows, 768 -> 3072", 1024, 3072, 768, nn},
    {"its dx", 1024, 768, 3072, nt},
    {"its dw", 768, 3072, 1024, tn},
    {"124M, 1024 rows, 3072 -> 768", 1024, 768, 3072, nn},
    {"its dx", 1024, 3072, 768, nt},
    {"its dw", 3072, 768, 1024, tn},
    {"124M, logits", 256, 50257, 768, nt},
    {"its dx", 256, 768, 50257, nn},
    {"its dwte", 50257, 768, 256, tn},
    {"16 x 16 x 16", 16, 16, 16, nn},
    {"32 x 32 x 32", 32, 32, 32, nn},
    {"128 cubed", 128, 128, 128, nn},
    {"256 cubed", 256, 256, 256, nn},
    {"512 cubed", 512, 512, 512, nn},
    {"1024 cubed", 1024, 1024, 1024, nn},
};

/// GFLOP/s of the reference, with which c must agree.
double plainRate(const float *c, const float *a, const float *b, const Shape &s, double count) {
  bool ta = s.form == Form::tn, tb = s.form == Form::nt;
  Array<float> want(s.m * s.n);
  auto product = [&] {
    reference::gemm<float>(want, a, b, s.m, s.n, s.k, s.form, ta ? s.m : s.k, tb ? s.k : s.n, s.n, 1, 0);
  };
  double t = fastest(product, 0.01);
  for (int64_t i = 0; i < want.size; ++i)
    if (!(std::abs(c[i] - want[i]) < 1e-3 * std::sqrt(double(s.k)))) {
      std::fprintf(stderr, "%s: differs from its reference\n", s.what);
      std::exit(1);
    }
  return count / t * 1e-9;
}

} // namespace

/// All three by shape. `chosen` is what choose_gemm says.
void gemms() {
  std::printf("%-36s %-2s %5s %5s %5s %9s %9s %9s %9s %14s  %s\n", "matrix product, GFLOP/s", "", "m", "n", "k",
              "openblas", "onednn", "tiled", "reference", "of the limit", "chosen");
  double logs = 0, least = 1;
  int counted = 0;
  for (const Shape &s : kShapes) {
    bool ta = s.form == tn, tb = s.form == nt;
    Values a(s.m * s.k), b(s.k * s.n, 2);
    Array<float> c(s.m * s.n);
    auto product = [&](Blas library) {
      gemm<float>(c, a, b, s.m, s.n, s.k, s.form, ta ? s.m : s.k, tb ? s.k : s.n, s.n, 1, 0, library);
    };
    const double count = 2.0 * s.m * s.n * s.k;
    double rate[3] = {}, plain = 0, limit = 0;
    for (int round = 0; round < 3; ++round) { // in turns, so that other work on the machine meets all
      limit = std::max(limit, peakFlops());
      for (Blas library : {Blas::openblas, Blas::onednn, Blas::tiled})
        rate[int(library)] = std::max(rate[int(library)], count / fastest([&] { product(library); }, 0.04) * 1e-9);
    }
    if (count < 1e8)
      plain = plainRate(c, a, b, s, count);
    Blas chosen = choose_gemm(s.m, s.n, s.k, ta, tb, 4);
    bool right = rate[int(chosen)] >= 0.97 * *std::max_element(rate, rate + 3);
    const char *const names[] = {"openblas", "onednn", "tiled"};
    if (s.m >= 64 && s.n >= 64 && s.k >= 64) {
      logs += std::log(rate[int(chosen)] / limit);
      least = std::min(least, rate[int(chosen)] / limit);
      ++counted;
    }
    std::printf("%-36s %-2s %5ld %5ld %5ld %9.1f %9.1f %9.1f %9.1f %12.0f %%  %s%s\n", s.what,
                s.form == nn ? "nn"
                : ta         ? "tn"
                             : "nt",
                long(s.m), long(s.n), long(s.k), rate[0], rate[1], rate[2], plain, 100 * rate[int(chosen)] / limit,
                names[int(chosen)], right ? "" : " (slower)");
  }
  std::printf("chosen, where no size is below 64: %.0f %% of the limit in the geometric mean, at least %.0f %%\n",
              100 * std::exp(logs / counted), 100 * least);
}

} // namespace echelon::bench
