// Scalar functions in loops as generated programs have them. In the cache, where arithmetic decides, beside libm's;
// and over arrays far beyond it.
#include "runtime/kernels/Elementwise.h"
#include "Bench.h"
#include <cmath>

namespace echelon::bench {
namespace {

using namespace runtime;

template <typename F> __attribute__((noinline)) void apply(float *y, const float *x, int64_t n, F f) {
#pragma GCC ivdep
  for (int64_t i = 0; i < n; ++i)
    y[i] = f(x[i]);
}

template <typename F, typename G> void loop(const std::string &name, int64_t n, F f, G plain) {
  Values x(n);
  Array<float> y(n), want(n);
  for (int64_t i = 0; i < n; ++i)
    x[i] = std::abs(x[i]) + 0.1f;
  const int64_t few = 2048; // x and y together are 16 KB
  const double alone = fastest([&] { apply(y.data, x, few, f); }) * n / few;
  streams(
      name, Traffic().read(4.0 * n).write(4.0 * n).atLeast(alone), [&] { apply(y.data, x, n, f); },
      [&] { apply(want.data, x, n, plain); }, {{y, want, n}});
}

void functions(const std::string &where, int64_t n) {
  const double pi = 3.14159265358979323846;
  auto gelu = [](float v) { return 0.5f * v * (1 + std::erf(v * std::sqrt(0.5f))); };
  auto density = [=](float v) { return std::exp(-0.5f * v * v) / std::sqrt(float(2 * pi)); };
  loop("x + 1" + where, n, [](float v) { return v + 1; }, [](float v) { return v + 1; });
  loop("exp" + where, n, [](float v) { return math::exp(v); }, [](float v) { return std::exp(v); });
  loop("log" + where, n, [](float v) { return math::log(v); }, [](float v) { return std::log(v); });
  loop("rsqrt" + where, n, [](float v) { return math::rsqrt(v); }, [](float v) { return 1 / std::sqrt(v); });
  loop("tanh" + where, n, [](float v) { return math::tanh(v); }, [](float v) { return std::tanh(v); });
  loop("erf" + where, n, [](float v) { return math::erf(v); }, [](float v) { return std::erf(v); });
  loop("sigmoid" + where, n, [](float v) { return math::sigmoid(v); }, [](float v) { return 1 / (1 + std::exp(-v)); });
  loop("gelu" + where, n, [](float v) { return math::gelu(v); }, gelu);
  loop(
      "gelu_tanh" + where, n, [](float v) { return math::gelu_tanh(v); },
      [=](float v) { return 0.5f * v * (1 + std::tanh(std::sqrt(float(2 / pi)) * (v + 0.044715f * v * v * v))); });
  loop(
      "gelu_grad" + where, n, [](float v) { return math::gelu_grad(v); },
      [=](float v) { return 0.5f * (1 + std::erf(v * std::sqrt(0.5f))) + v * density(v); });
  loop("silu" + where, n, [](float v) { return math::silu(v); }, [](float v) { return v / (1 + std::exp(-v)); });
  loop("sin" + where, n, [](float v) { return math::sin(v); }, [](float v) { return std::sin(v); });
  loop("pow" + where, n, [](float v) { return math::pow(v, 1.7f); }, [](float v) { return std::pow(v, 1.7f); });
}

} // namespace

void elementwise() {
  heading("element by element");
  functions(", 64 KB", 1 << 14);
  functions(", 64 MB", 1 << 24);
}

} // namespace echelon::bench
