#include "runtime/profile/Limits.h"

#include <cstring>
#include <vector>

namespace echelon::runtime {

double peakFlops() {
#ifdef __AVX512F__
  constexpr int kLanes = 16;
#else
  constexpr int kLanes = 8;
#endif
  typedef float V __attribute__((vector_size(4 * kLanes)));
  const int rounds = 1000000, chains = 10; // enough independent chains to hide the latency of an fma
  volatile float source = 0.999f;
  float factor = source;
  float kept = 0;
  double t = fastest([&] {
    V x[chains], a = V{} + factor;
    for (int c = 0; c < chains; ++c)
      x[c] = V{} + float(c);
    for (int i = 0; i < rounds; ++i)
      for (int c = 0; c < chains; ++c)
        x[c] = x[c] * a + a;
    for (int c = 0; c < chains; ++c)
      kept += x[c][0];
  });
  volatile float sink = kept;
  (void)sink;
  return 2.0 * kLanes * chains * rounds / t * 1e-9;
}

double memoryBandwidth(size_t n) {
  std::vector<float> x(n, 1.0f), y(n, 2.0f);
  double t = fastest([&] {
    for (size_t i = 0; i < n; ++i)
      y[i] = 0.5f * x[i] + y[i];
  });
  volatile float sink = y[n / 2];
  (void)sink;
  return 12.0 * double(n) / t * 1e-9;
}

double copyBandwidth(size_t n) {
  std::vector<float> x(n, 1.0f), y(n, 2.0f);
  double t = fastest([&] { std::memcpy(y.data(), x.data(), 4 * n); });
  volatile float sink = y[n / 2];
  (void)sink;
  return 4.0 * double(n) / t * 1e-9;
}

} // namespace echelon::runtime
