// Kernels over rows: norms, softmax, cross-entropy, reductions. In sizes that a step's cache holds, and of 64 MB and
// more.
#include "Bench.h"
#include "runtime/kernels/Kernels.h"

namespace echelon::bench {
namespace {

using namespace runtime;

std::string sized(const std::string &name, int64_t r, int64_t n) {
  return name + ", " + std::to_string(r) + " x " + std::to_string(n);
}

/// dx = rstd * (dy - mean(dy) - y * mean(dy * y)); without `center` not mean(dy).
void plainNormGrad(float *dx, const float *dy, const float *y, const float *rstd, int64_t r, int64_t n, bool center) {
  for (int64_t i = 0; i < r; ++i, dx += n, dy += n, y += n) {
    double a = 0, b = 0;
    for (int64_t j = 0; j < n; ++j)
      a += center ? dy[j] / n : 0, b += double(dy[j]) * y[j] / n;
    for (int64_t j = 0; j < n; ++j)
      dx[j] = float(rstd[i] * (dy[j] - a - y[j] * b));
  }
}

void norms(int64_t r, int64_t n) {
  const double all = 4.0 * r * n;
  Values x(r * n), d(r * n, 2);
  Array<float> y(r * n), want(r * n), rstd(r), wantRstd(r);
  auto forward = Traffic().read(all).write(all), backward = Traffic().read(all).read(all).write(all);
  streams(
      sized("layer norm", r, n), forward, [&] { normalize<float>(y, rstd, x, r, n, 1e-5); },
      [&] { reference::normalize<float>(want, wantRstd, x, 1, r, n, 1e-5, true); },
      {{y, want, r * n}, {rstd, wantRstd, r}});
  Array<float> dx(r * n);
  streams(
      sized("  its derivative", r, n), backward, [&] { normalize_grad<float>(dx, d, y, rstd, r, n); },
      [&] { plainNormGrad(want, d, y, rstd, r, n, true); }, {{dx, want, r * n}});
  streams(
      sized("rms norm", r, n), forward, [&] { rms_normalize<float>(y, rstd, x, r, n, 1e-5); },
      [&] { reference::normalize<float>(want, wantRstd, x, 1, r, n, 1e-5, false); }, {{y, want, r * n}});
  streams(
      sized("  its derivative", r, n), backward, [&] { rms_normalize_grad<float>(dx, d, y, rstd, r, n); },
      [&] { plainNormGrad(want, d, y, rstd, r, n, false); }, {{dx, want, r * n}});
}

void softmaxes(int64_t r, int64_t n) {
  const double all = 4.0 * r * n;
  Values x(r * n);
  Array<float> y(r * n), want(r * n), few(std::max(r, n)), wantFew(few.size), shift(r), logSum(r);
  const double exps = secondsOfExponentials(double(r) * n);
  auto forward = Traffic().read(all).write(all).atLeast(exps);
  streams(
      sized("softmax", r, n), forward, [&] { softmax<float>(y, x, r, n, 1); },
      [&] { reference::softmax<float>(want, x, r, n, 1); }, {{y, want, r * n}});
  streams(
      sized("softmax over rows", r, n), forward, [&] { softmax<float>(y, x, 1, r, n); },
      [&] { reference::softmax<float>(want, x, 1, r, n); }, {{y, want, r * n}});
  streams(
      sized("logsumexp", r, n), Traffic().read(all).atLeast(exps),
      [&] { logsumexp<float>(few, shift, logSum, x, r, n, 1); },
      [&] { reference::logsumexp<float>(wantFew, x, r, n, 1); }, {{few, wantFew, r}});
}

void crossEntropies(int64_t r, int64_t n) {
  const double all = 4.0 * r * n, exps = secondsOfExponentials(double(r) * n);
  Values x(r * n);
  Array<float> loss(r), wantLoss(r), shift(r), logSum(r);
  Array<int32_t> labels(r);
  for (int64_t i = 0; i < r; ++i)
    labels[i] = int32_t(i * 7919 % n);
  streams(
      sized("cross-entropy", r, n), Traffic().read(all).atLeast(exps),
      [&] { cross_entropy<float>(loss, shift, logSum, x, labels, r, n); },
      [&] { reference::cross_entropy<float>(wantLoss, x, labels, r, n); }, {{loss, wantLoss, r}});
}

void reductions(int64_t r, int64_t n) {
  auto all = Traffic().read(4.0 * r * n);
  Values x(r * n);
  Array<float> few(std::max(r, n)), want(few.size);
  Array<int32_t> index(r), wantIndex(r);
  streams(
      sized("sum of rows", r, n), all, [&] { reduce_sum<float>(few, x, r, n, 1); },
      [&] { reference::reduce_sum<float>(want, x, r, n, 1); }, {{few, want, r}});
  streams(
      sized("sum over rows (a bias's derivative)", r, n), all, [&] { reduce_sum<float>(few, x, 1, r, n); },
      [&] { reference::reduce_sum<float>(want, x, 1, r, n); }, {{few, want, n}});
  auto plain = [&] { reference::max_with_index<float>(want, wantIndex, x, r, n, 1, 0); };
  streams(sized("maximum of rows", r, n), all, [&] { reduce_max<float>(few, x, r, n, 1); }, plain, {{few, want, r}});
  streams(sized("argmax of rows", r, n), all, [&] { max_with_index<float>(few, index, x, r, n, 1, 0); }, plain,
          {{few, want, r}});
  streams(sized("maximum over rows", r, n), all, [&] { reduce_max<float>(few, x, 1, r, n); });
  Array<int32_t> columns(n);
  streams(sized("argmax over rows", r, n), all, [&] { argmax<float>(columns, x, 1, r, n); });
}

} // namespace

void rows() {
  heading("rows");
  for (int64_t r : {512, 21888}) { // 1.5 MB, 67 MB
    norms(r, 768);
    reductions(r, 768);
  }
  softmaxes(2048, 128); // the scores of a small model's attention
  softmaxes(21888, 768);
  crossEntropies(2048, 256);  // characters
  crossEntropies(384, 50257); // GPT-2's tokens, 77 MB
}

} // namespace echelon::bench
