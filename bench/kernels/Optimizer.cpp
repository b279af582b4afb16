// What an update does: the gradient's norm, the search for what is not finite, and AdamW as generated programs print
// it, one loop a tensor.
#include "Bench.h"
#include "runtime/kernels/Check.h"
#include "runtime/kernels/Elementwise.h"
#include <cmath>

namespace echelon::bench {
namespace {

using namespace runtime;

__attribute__((noinline)) void adamw(float *w, float *m, float *v, const float *dw, int64_t n, const float *scale,
                                     const float *root, const float *keep, const float *rate) {
#pragma GCC ivdep
  for (int64_t i = 0; i < n; ++i) {
    const float m_before = m[i];
    const float v_before = v[i];
    const float w_before = w[i];
    const float dw_2 = dw[i] * scale[0];
    const float new_m = m_before * 0.9f + dw_2 * 0.09999999999999998f;
    const float new_v = v_before * 0.95f + dw_2 * dw_2 * 0.050000000000000044f;
    const float e = new_m / (math::sqrt(new_v) / root[0] + 1e-08f) * rate[0];
    m[i] = new_m;
    v[i] = new_v;
    w[i] = w_before * keep[0] - e;
  }
}

/// In double. w and v, m at once.
void plainAdamw(float *w, float *m, float *v, const float *dw, int64_t n, const float *scalars) {
  for (int64_t i = 0; i < n; ++i) {
    double d = double(dw[i]) * scalars[0], nm = m[i] * 0.9 + d * 0.1, nv = v[i] * 0.95 + d * d * 0.05;
    w[i] = float(w[i] * scalars[2] - nm / (std::sqrt(nv) / scalars[1] + 1e-8) * scalars[3]);
    m[i] = float(nm), v[i] = float(nv);
  }
}

void sized(const std::string &size, int64_t n) {
  const double all = 4.0 * n;
  Values dw(n);
  Array<float> scalars(4);
  scalars[0] = 0.5f, scalars[1] = 0.3f, scalars[2] = 0.999f, scalars[3] = 1e-3f;
  Array<float> once[3]{Array<float>(n), Array<float>(n), Array<float>(n)};
  Array<float> plain[3]{Array<float>(n), Array<float>(n), Array<float>(n)};
  adamw(once[0], once[1], once[2], dw, n, scalars, scalars + 1, scalars + 2, scalars + 3);
  Array<float> w(n), m(n), v(n);
  streams(
      "adamw" + size, Traffic().read(all).update(all).update(all).update(all),
      [&] { adamw(w, m, v, dw, n, scalars, scalars + 1, scalars + 2, scalars + 3); },
      [&] {
        for (Array<float> &state : plain)
          std::fill_n(state.data, n, 0.0f);
        plainAdamw(plain[0], plain[1], plain[2], dw, n, scalars); // one step from zeros
      },
      {{once[0], plain[0], n}, {once[1], plain[1], n}, {once[2], plain[2], n}});
  Array<float> got(1), want(1);
  streams(
      "sum of squares" + size, Traffic().read(all), [&] { got[0] = float(sum_of_squares<float>(dw, n)); },
      [&] {
        long double sum = 0;
        for (int64_t i = 0; i < n; ++i)
          sum += double(dw[i]) * dw[i];
        want[0] = float(sum);
      },
      {{got, want, 1, 1e-6}});
  streams("search for what is not finite" + size, Traffic().read(all), [&] { check_finite<float>(dw, n); });
}

} // namespace

void optimizers() {
  heading("updates");
  sized(", 256 KB", 1 << 16);
  sized(", 9 MB (768 x 3072)", 768 * 3072);
  sized(", 64 MB", 1 << 24);
}

} // namespace echelon::bench
