// Speed of the kernels on one core beside its limits, measured in the same run: bench_kernels [gemm elementwise rows
// copies attention conv]. Products and convolutions in GFLOP/s beside the peak, what streams in GB/s beside the
// memory's bandwidth (sizes here fit the cache where a training step's would, so figures above it are no error).
#include "Limits.h"
#include "runtime/kernels/ConvDirect.h"
#include "runtime/kernels/ConvDnnl.h"
#include "runtime/kernels/Kernels.h"
#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstring>
#include <functional>
#include <random>
#include <vector>

using namespace echelon::runtime;
using echelon::bench::fastest;

namespace {

std::vector<float> values(int64_t n) {
  std::mt19937 random(1);
  std::normal_distribution<float> normal;
  std::vector<float> v(n);
  for (float &x : v)
    x = normal(random);
  return v;
}

double peak, bandwidth;

void flops(const char *name, double count, const std::function<void()> &f) {
  double rate = count / fastest(f) * 1e-9;
  std::printf("%-44s %8.1f GFLOP/s  %5.1f %% of the peak\n", name, rate, 100 * rate / peak);
}
void bytes(const char *name, double count, const std::function<void()> &f) {
  double rate = count / fastest(f) * 1e-9;
  std::printf("%-44s %8.1f GB/s     %5.2f of the memory's\n", name, rate, rate / bandwidth);
}

/// Both libraries by shape. `chosen` is what choose_gemm says.
void gemms() {
  struct Shape {
    const char *what;
    int64_t m, n, k;
    Form form;
  };
  const Form nn = Form::nn, nt = Form::nt, tn = Form::tn;
  const Shape shapes[] = {
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
      {"GPT 128 wide, 2048 rows, 128 -> 64", 2048, 64, 128, nn},
      {"its dx", 2048, 128, 64, nt},
      {"its dw", 128, 64, 2048, tn},
      {"GPT 128 wide, 128 -> 256", 2048, 256, 128, nn},
      {"its dx", 2048, 128, 256, nt},
      {"its dw", 128, 256, 2048, tn},
      {"GPT 128 wide, logits", 2048, 256, 128, nt},
      {"its dwte", 256, 128, 2048, tn},
      {"GPT-2 256 rows, 768 -> 768", 256, 768, 768, nn},
      {"its dx", 256, 768, 768, nt},
      {"its dw", 768, 768, 256, tn},
      {"GPT-2 256 rows, 768 -> 3072", 256, 3072, 768, nn},
      {"its dx", 256, 768, 3072, nt},
      {"its dw", 768, 3072, 256, tn},
      {"GPT-2 1024 rows, 768 -> 768", 1024, 768, 768, nn},
      {"GPT-2 logits", 256, 50304, 768, nt},
      {"16 x 16 x 16", 16, 16, 16, nn},
      {"32 x 32 x 32", 32, 32, 32, nn},
      {"128 cubed", 128, 128, 128, nn},
      {"256 cubed", 256, 256, 256, nn},
      {"512 cubed", 512, 512, 512, nn},
      {"1024 cubed", 1024, 1024, 1024, nn},
  };
  std::printf("%-38s %-2s %5s %5s %5s %9s %9s  chosen\n", "product, GFLOP/s", "", "m", "n", "k", "openblas", "onednn");
  for (const Shape &s : shapes) {
    bool ta = s.form == tn, tb = s.form == nt;
    auto a = values(s.m * s.k), b = values(s.k * s.n);
    std::vector<float> c(s.m * s.n);
    double rate[2] = {0, 0};
    for (int round = 0; round < 3; ++round) // in turns, so that other work on the machine meets both
      for (Blas library : {Blas::openblas, Blas::onednn}) {
        double t = fastest(
            [&] {
              gemm(c.data(), a.data(), b.data(), s.m, s.n, s.k, s.form, ta ? s.m : s.k, tb ? s.k : s.n, s.n, 1, 0,
                   library);
            },
            0.04);
        rate[int(library)] = std::max(rate[int(library)], 2.0 * s.m * s.n * s.k / t * 1e-9);
      }
    Blas chosen = choose_gemm(s.m, s.n, s.k, ta, tb, 4);
    bool right = rate[int(chosen)] >= 0.97 * rate[1 - int(chosen)];
    std::printf("%-38s %-2s %5ld %5ld %5ld %9.1f %9.1f  %s%s\n", s.what,
                s.form == nn ? "nn"
                : ta         ? "tn"
                             : "nt",
                long(s.m), long(s.n), long(s.k), rate[0], rate[1], chosen == Blas::openblas ? "openblas" : "onednn",
                right ? "" : " (slower)");
  }
}

/// A loop as generated programs have it, in a function of its own.
template <typename F> __attribute__((noinline)) void apply(float *y, const float *x, int64_t n, F f) {
#pragma GCC ivdep
  for (int64_t i = 0; i < n; ++i)
    y[i] = f(x[i]);
}

void elementwise() {
  constexpr int64_t n = 1 << 14; // in the L2 cache: arithmetic decides
  auto x = values(n), y = x;
  for (float &v : x)
    v = std::abs(v) + 0.1f;
  auto loop = [&](const char *name, auto f) {
    double t = fastest([&] { apply(y.data(), x.data(), n, f); });
    std::printf("%-44s %8.2f ns an element\n", name, t / n * 1e9);
  };
  loop("x + 1", [](float v) { return v + 1; });
  loop("exp", [](float v) { return math::exp(v); });
  loop("expf of libm", [](float v) { return std::exp(v); });
  loop("log", [](float v) { return math::log(v); });
  loop("rsqrt", [](float v) { return math::rsqrt(v); });
  loop("tanh", [](float v) { return math::tanh(v); });
  loop("erf", [](float v) { return math::erf(v); });
  loop("sigmoid", [](float v) { return math::sigmoid(v); });
  loop("gelu", [](float v) { return math::gelu(v); });
  loop("gelu_tanh", [](float v) { return math::gelu_tanh(v); });
  loop("gelu_grad", [](float v) { return math::gelu_grad(v); });
  loop("silu", [](float v) { return math::silu(v); });
  loop("sin", [](float v) { return math::sin(v); });
  loop("pow", [](float v) { return math::pow(v, 1.7f); });
}

void rows() {
  const int64_t r = 2048, n = 768, all = r * n;
  auto x = values(all), d = values(all);
  std::vector<float> y(all), dx(all), rstd(r), sums(n);
  bytes("layer norm, 2048 x 768", 8.0 * all, [&] { normalize(y.data(), rstd.data(), x.data(), r, n, 1e-5); });
  bytes("its derivative", 12.0 * all, [&] { normalize_grad(dx.data(), d.data(), y.data(), rstd.data(), r, n); });
  bytes("rms norm, 2048 x 768", 8.0 * all, [&] { rms_normalize(y.data(), rstd.data(), x.data(), r, n, 1e-5); });
  bytes("softmax, 2048 x 768", 8.0 * all, [&] { softmax(y.data(), x.data(), r, n, 1); });
  bytes("its derivative", 12.0 * all, [&] { softmax_grad(dx.data(), d.data(), y.data(), r, n, 1); });
  bytes("softmax, 2048 x 768 over rows", 8.0 * all, [&] { softmax(y.data(), x.data(), 1, r, n); });
  bytes("sum of rows of 768", 4.0 * all, [&] { reduce_sum(rstd.data(), x.data(), r, n, 1); });
  bytes("sum over 2048 rows (a bias's derivative)", 4.0 * all, [&] { reduce_sum(sums.data(), x.data(), 1, r, n); });
  bytes("maximum of rows of 768", 4.0 * all, [&] { reduce_max(rstd.data(), x.data(), r, n, 1); });
  std::vector<int32_t> index(r);
  bytes("argmax of rows of 768", 4.0 * all, [&] { argmax(index.data(), x.data(), r, n, 1); });
  const int64_t tokens = 256, vocab = 8192;
  auto logits = values(tokens * vocab);
  std::vector<float> loss(tokens), lse(tokens), ones(tokens, 1.0f), dl(tokens * vocab);
  std::vector<int32_t> labels(tokens, 7);
  bytes("cross-entropy, 256 x 8192", 4.0 * tokens * vocab,
        [&] { cross_entropy(loss.data(), lse.data(), logits.data(), labels.data(), tokens, vocab); });
  bytes("its derivative", 8.0 * tokens * vocab,
        [&] { cross_entropy_grad(dl.data(), ones.data(), logits.data(), lse.data(), labels.data(), tokens, vocab); });
  const int64_t batch = 64, channels = 16, inner = 32 * 32, image = batch * channels * inner;
  auto h = values(image), dh = values(image);
  std::vector<float> hy(image), hd(image), hr(channels);
  bytes("batch norm, 64 x 16 x 1024", 8.0 * image,
        [&] { normalize_channels(hy.data(), hr.data(), h.data(), batch, channels, inner, 1e-5); });
  bytes("its derivative", 12.0 * image,
        [&] { normalize_channels_grad(hd.data(), dh.data(), hy.data(), hr.data(), batch, channels, inner); });
  bytes("sum of squares", 4.0 * all, [&] { sum_of_squares(x.data(), all); });
  bytes("search for what is not finite", 4.0 * all, [&] { check_finite(x.data(), all); });
  PoolShape pool{batch * channels, 2, {{32, 2, 2, 0, 0}, {32, 2, 2, 0, 0}}};
  std::vector<int32_t> places(image / 4);
  bytes("maxpool 2 x 2", 6.0 * image, [&] { maxpool(hy.data(), places.data(), h.data(), pool); });
  bytes("avgpool 2 x 2", 5.0 * image, [&] { avgpool(hy.data(), h.data(), pool); });
}

void copies() {
  const int64_t n = 2048, all = n * n;
  auto x = values(all);
  std::vector<float> y(all);
  bytes("memcpy, 16 MB", 8.0 * all, [&] { std::memcpy(y.data(), x.data(), 4 * all); });
  bytes("transpose 2048 x 2048", 8.0 * all, [&] { copy_strided(y.data(), {n, 1}, x.data(), {1, n}, {n, n}); });
  bytes("(64, 256, 4, 64) to (64, 4, 256, 64)", 8.0 * all,
        [&] { copy_strided(y.data(), {65536, 16384, 64, 1}, x.data(), {65536, 64, 256, 1}, {64, 4, 256, 64}); });
  bytes("(64, 256, 256) to (64, 256, 256) transposed", 8.0 * all,
        [&] { copy_strided(y.data(), {65536, 256, 1}, x.data(), {65536, 1, 256}, {64, 256, 256}); });
  const int64_t tokens = 4096, width = 512, vocab = 8192;
  std::vector<int32_t> index(tokens);
  for (int64_t i = 0; i < tokens; ++i)
    index[i] = int32_t(i * 7919 % vocab);
  bytes("gather of 4096 rows of 512", 8.0 * tokens * width,
        [&] { gather_rows(y.data(), x.data(), index.data(), tokens, width, 0, int32_t(vocab)); });
  bytes("scatter of 4096 rows of 512", 12.0 * tokens * width,
        [&] { scatter_add_rows(y.data(), x.data(), index.data(), tokens, width, 0, int32_t(vocab)); });
}

/// Counts all of the products of the unmasked form: causal calls do a little over half of it.
void attentions() {
  struct Case {
    const char *name;
    int64_t batch, head, seq, key;
    bool causal;
  };
  for (Case c : {Case{"attention 32 x 2 x 64, key 32, causal", 32, 2, 64, 32, true},
                 Case{"attention 4 x 6 x 256, key 64, causal", 4, 6, 256, 64, true},
                 Case{"attention 4 x 6 x 256, key 64", 4, 6, 256, 64, false},
                 Case{"attention 1 x 12 x 1024, key 64, causal", 1, 12, 1024, 64, true},
                 Case{"attention 1 x 12 x 1024, key 64", 1, 12, 1024, 64, false}}) {
    AttentionShape s{c.batch, 1, c.head, c.seq, c.seq, c.key, c.key, 1 / std::sqrt(double(c.key)), c.causal};
    HeadStrides h{c.seq * c.head * c.key, 0, c.key, c.head * c.key};
    AttentionStrides strides{h, h, h, h};
    int64_t n = c.batch * c.seq * c.head * c.key;
    auto q = values(n), k = values(n), v = values(n), d = values(n);
    std::vector<float> out(n), lse(c.batch * c.head * c.seq), dq(n), dk(n), dv(n);
    double work = 4.0 * c.batch * c.head * c.seq * c.seq * c.key;
    flops(c.name, work, [&] { attention(out.data(), lse.data(), q.data(), k.data(), v.data(), s, strides); });
    flops("  its derivative", 2.5 * work, [&] {
      attention_grad<float>(dq.data(), dk.data(), dv.data(), nullptr, d.data(), out.data(), lse.data(), q.data(),
                            k.data(), v.data(), s, strides, strides);
    });
  }
}

void convs() {
  struct Case {
    const char *name;
    int64_t from, to, size, stride;
  };
  for (Case c : {Case{"conv 1 -> 16, 28 x 28, 64 images", 1, 16, 28, 1}, Case{"conv 2 -> 16, 28 x 28", 2, 16, 28, 1},
                 Case{"conv 3 -> 16, 32 x 32, 64 images", 3, 16, 32, 1}, Case{"conv 16 -> 16, 32 x 32", 16, 16, 32, 1},
                 Case{"conv 16 -> 32, stride 2", 16, 32, 32, 2}, Case{"conv 32 -> 32, 16 x 16", 32, 32, 16, 1},
                 Case{"conv 16 -> 32, 14 x 14", 16, 32, 14, 1}, Case{"conv 32 -> 64, stride 2", 32, 64, 16, 2},
                 Case{"conv 64 -> 64, 8 x 8", 64, 64, 8, 1}}) {
    WindowDim w{c.size, 3, c.stride, 1, 1};
    ConvShape s{64, c.from, c.to, 2, {w, w}};
    int64_t in = 64 * c.from * c.size * c.size, out = 64 * c.to * w.out() * w.out();
    auto x = values(in), weights = values(c.to * c.from * 9), dy = values(out);
    std::vector<float> y(out), dx(in), dw(weights.size());
    double work = 2.0 * out * c.from * 9;
    flops(c.name, work, [&] { conv(y.data(), x.data(), weights.data(), s); });
    flops("  its dx", work, [&] { conv_grad_data(dx.data(), dy.data(), weights.data(), s); });
    flops("  its dw", work, [&] { conv_grad_weights(dw.data(), x.data(), dy.data(), s); });
    // Both ways, whichever choose_conv takes.
    for (ConvKind kind : {ConvKind::forward, ConvKind::gradData, ConvKind::gradWeights}) {
      std::vector<float> scratch(std::max(conv_direct_scratch(kind, s, 4), conv_scratch(kind, s, 4)));
      auto time = [&](auto way) {
        return fastest(
            [&] { way(kind, x.data(), weights.data(), dy.data(), s, scratch.data(), int64_t(scratch.size())); });
      };
      const char *names[] = {"forward", "dx", "dw"};
      std::printf("    %-8s direct %6.1f, oneDNN %6.1f GFLOP/s\n", names[int(kind)],
                  work / time(detail::conv_direct<float>) * 1e-9, work / time(detail::conv_dnnl) * 1e-9);
    }
  }
}

} // namespace

int main(int argc, char **argv) {
  struct Part {
    const char *name;
    void (*run)();
  };
  const Part parts[] = {{"gemm", gemms},    {"elementwise", elementwise}, {"rows", rows},
                        {"copies", copies}, {"attention", attentions},    {"conv", convs}};
  for (int i = 1; i < argc; ++i)
    if (std::none_of(std::begin(parts), std::end(parts),
                     [&](const Part &p) { return !std::strcmp(argv[i], p.name); })) {
      std::fprintf(stderr, "usage: bench_kernels [gemm] [elementwise] [rows] [copies] [attention] [conv]\n");
      return 2;
    }
  peak = echelon::bench::peakFlops();
  bandwidth = echelon::bench::memoryBandwidth();
  std::printf("one core: %.1f GFLOP/s in float, %.1f GB/s of memory\n", peak, bandwidth);
  for (const Part &part : parts) {
    bool wanted = argc == 1;
    for (int i = 1; i < argc; ++i)
      wanted |= !std::strcmp(argv[i], part.name);
    if (wanted)
      part.run();
  }
}
