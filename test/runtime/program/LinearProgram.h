// A program as the compiler would write it, small enough to write by hand: y = dot(image, w) + noise, a squared loss
// against the label, SGD with momentum; batch split over dp, pixel over tp, the momentum stored in flat cuts over dp.
#pragma once

#include "runtime/Runtime.h"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <csignal>
#include <cstring>
#include <thread>
#include <unistd.h>

namespace linear {

using namespace echelon::runtime;

constexpr int64_t kBatch = 8, kPixel = 6;
constexpr uint64_t kNoise = path_hash("noise");

struct Sizes {
  int64_t dp, tp, micro, samples, pixels, cut; // of one rank and pass
  int64_t image, label;                        // byte offsets of inputs
  int64_t gradient, y;                         // of work
};

inline Sizes sizesOf(int64_t dp, int64_t tp, int64_t micro) {
  Sizes s;
  s.dp = dp;
  s.tp = tp;
  s.micro = micro;
  s.samples = kBatch / s.micro / s.dp;
  s.pixels = kPixel / s.tp;
  s.cut = (s.pixels + s.dp - 1) / s.dp;
  s.image = 0;
  s.label = 8 * s.micro * s.samples * s.pixels;
  s.gradient = 0;
  s.y = 8 * s.cut * s.dp;
  return s;
}

inline Sizes sizesOf(const Program &p) {
  return sizesOf(p.mesh[0].size, p.mesh[1].size, p.inputs[0].places[0].layout.axes[0].size);
}

/// y[i] = dot(image[i], w), summed over tp; then the noise of training.
inline void forward(Rank &r, const Sizes &s, int64_t micro, double *y) {
  const double *w = r.state<double>(0), *image = r.input<double>(s.image) + micro * s.samples * s.pixels;
  for (int64_t i = 0; i < s.samples; ++i) {
    y[i] = 0;
    for (int64_t k = 0; k < s.pixels; ++k)
      y[i] += image[i * s.pixels + k] * w[k];
  }
  all_reduce(r, r.group(1), y, s.samples, Sum);
  if (!r.training())
    return;
  double noise[kBatch];
  fill_random(noise, r.randomKey(kNoise), Distribution::Normal, 0, 0.01,
              {{s.samples, micro * kBatch / s.micro + r.coordinate(0) * s.samples, 1}});
  for (int64_t i = 0; i < s.samples; ++i)
    y[i] += noise[i];
}

inline void step(Rank &r, double lr) {
  const Sizes s = sizesOf(r.program());
  double *w = r.state<double>(0), *momentum = r.state<double>(8 * s.pixels);
  double *gradient = r.work<double>(s.gradient), *y = r.work<double>(s.y);
  double loss = 0;
  std::fill(gradient, gradient + s.cut * s.dp, 0.0);
  for (int64_t t = 0; t < s.micro; ++t) {
    const double *image = r.input<double>(s.image) + t * s.samples * s.pixels;
    const int32_t *label = r.input<int32_t>(s.label) + t * s.samples;
    forward(r, s, t, y);
    for (int64_t i = 0; i < s.samples; ++i) {
      const double error = y[i] - label[i];
      loss += error * error / kBatch;
      for (int64_t k = 0; k < s.pixels; ++k)
        gradient[k] += 2 * error / kBatch * image[i * s.pixels + k];
    }
  }
  all_reduce(r, r.group(0), &loss, 1, Sum);
  const int64_t first = r.coordinate(0) * s.cut;
  reduce_scatter(r, r.group(0), gradient + first, gradient, s.cut, Sum);
  double norm = 0;
  for (int64_t k = first; k < std::min(first + s.cut, s.pixels); ++k)
    norm += gradient[k] * gradient[k];
  r.watch("w", &norm);
  all_reduce(r, r.group(2), &norm, 1, Sum);
  r.report(0, loss);
  r.report(1, std::sqrt(norm));
  if (r.isBroken())
    return;
  for (int64_t k = 0; k < s.cut; ++k) {
    momentum[k] = 0.9 * momentum[k] + gradient[first + k];
    gradient[first + k] = (first + k < s.pixels ? w[first + k] : 0) - lr * momentum[k];
  }
  all_gather(r, r.group(0), gradient, gradient + first, s.cut);
  std::copy(gradient, gradient + s.pixels, w);
}

inline double *sums(Rank &r) { return r.work<double>(sizesOf(r.program()).y + 8 * kBatch); }

inline void evaluateBegin(Rank &r) { sums(r)[0] = sums(r)[1] = 0; }

inline void evaluateBatch(Rank &r) {
  const Sizes s = sizesOf(r.program());
  double *y = r.work<double>(s.y);
  for (int64_t t = 0; t < s.micro; ++t) {
    forward(r, s, t, y);
    for (int64_t i = 0; i < s.samples; ++i) {
      if (t * kBatch / s.micro + r.coordinate(0) * s.samples + i >= r.validSamples())
        continue;
      const double error = y[i] - r.input<int32_t>(s.label)[t * s.samples + i];
      sums(r)[0] += error * error;
      sums(r)[1] += std::abs(error) < 1;
    }
  }
}

inline void evaluateEnd(Rank &r) {
  all_reduce(r, r.group(0), sums(r), 2, Sum);
  r.report(0, sums(r)[0] / double(r.sampleCount()));
  r.report(2, sums(r)[1] / double(r.sampleCount()));
}

inline double constantRate(int64_t) { return 0.05; }
inline double hugeRate(int64_t step) { return step == 3 ? 1e160 : 0.05; }
inline double explodingRate(int64_t step) { return step == 3 ? 1e308 : 0.05; }
/// Asks the run to stop in its sixth step, as a user or a batch system would: once, since a second signal ends it at
/// once.
inline std::atomic<int> asked{0};
inline double interruptedRate(int64_t step) {
  if (step == 5 && asked.fetch_add(1) == 0) {
    kill(getpid(), SIGTERM);
    std::this_thread::sleep_for(std::chrono::milliseconds(200)); // the other steps take less than its delivery
  }
  return 0.05;
}

inline Program program(const std::string &folder, int dp, int tp, int64_t micro = 1) {
  Program p;
  p.name = "digits";
  p.spec = "linear.ech";
  p.folder = folder;
  p.version = "0";
  p.mesh = {{"dp", dp}, {"tp", tp}};
  p.seed = 11;
  p.batch = kBatch;
  p.steps = 20;
  p.data = {"mnist", {"data"}};
  const Sizes s = sizesOf(dp, tp, micro);
  p.stored = {
      {Stored::Param, "w", {"pixel"}, {{{"pixel", kPixel, {1}}}, {}}, ElementType::Float64, {Init::Normal, 0.5, 0}, 0},
      {Stored::Optimizer,
       "optimizer.momentum.w",
       {"pixel"},
       {{{"pixel", kPixel, {1}}}, {0}},
       ElementType::Float64,
       {},
       8 * s.pixels}};
  const AxisPiece pass = {"micro", micro, {}}, batch = {"batch", kBatch / micro, {0}}, row = {"row", 1, {}},
                  pixel = {"pixel", kPixel, {1}};
  const std::vector<Renamed> passes = {{{"batch"}, {"micro", "batch"}}};
  p.inputs = {{"image",
               0,
               {"batch", "row", "pixel"},
               {kBatch, 1, kPixel},
               ElementType::Float64,
               0,
               {{{{pass, batch, row, pixel}, {}}, ElementType::Float64, s.image, passes}}},
              {"label",
               1,
               {"batch"},
               {kBatch},
               ElementType::Int32,
               10,
               {{{{pass, batch}, {}}, ElementType::Int32, s.label, passes}}}};
  p.stateBytes = 8 * (s.pixels + s.cut);
  p.inputBytes = s.label + 4 * s.micro * s.samples;
  p.workBytes = s.y + 8 * kBatch + 16;
  p.groups = {{0}, {1}, {0, 1}};
  p.scalars = {{Scalar::Loss, ""}, {Scalar::Norm, ""}, {Scalar::Metric, "near"}};
  p.draws = {{"noise", {kBatch}, Distribution::Normal, 0, 0.01, {}}};
  Evaluation heldOut, named;
  heldOut.everySteps = 8;
  named.name = "table";
  named.data = {"npy", {"data/x.npy", "data/y.npy"}};
  named.batches = 1;
  p.evaluations = {heldOut, named};
  p.fingerprints = {{"model", "mathematics 1\n"
                              "input image ( 'batch 'row=1 'pixel=6 ) f64\ninput label ( 'batch ) i32\n"
                              "param w ( 'pixel=6 ) f64\n"
                              "%0 = value image\n%1 = value label\n%2 = value w\n"
                              "line 0 linear.ech:3  y = dot(image, w, over = pixel)\n"
                              "%3 = dot %0 %2 over [ 'pixel ] [ 'batch ] f64 @0\n"
                              "line 1 linear.ech:4  loss sum((y - label)^2)\n"
                              "%4 = sub %3 %1 [ 'batch ] f64 @1\n%5 = mul %4 %4 [ 'batch ] f64 @1\n"
                              "%6 = sum_over %5 [ 'batch ] [ ] f64 @1\nloss loss %6 @1\n"},
                    {"data", "source: mnist\npath: data\n"},
                    {"seed", "seed: 11\n"},
                    {"optimizer", "kind: sgd\nlr peak: 0.05\n"},
                    {"layout", "dp " + std::to_string(dp) + " tp " + std::to_string(tp)}};
  p.step = step;
  p.evaluateBegin = evaluateBegin;
  p.evaluateBatch = evaluateBatch;
  p.evaluateEnd = evaluateEnd;
  p.learningRate = constantRate;
  return p;
}

} // namespace linear
