#include "runtime/calibrate/Calibrate.h"

#include "runtime/calibrate/Figures.h"
#include "runtime/launch/Launch.h"
#include "runtime/profile/Limits.h"

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <sched.h>
#include <thread>

namespace echelon::runtime {

float *Buffers::floats(int64_t count) {
  kept.emplace_back(static_cast<size_t>(count));
  std::vector<float> &made = kept.back();
  for (size_t i = 0; i < made.size(); ++i)
    made[i] = 0.25f + 0.5f * float(i * 7919 % 1009) / 1009;
  return made.data();
}

namespace {
double median(std::vector<double> &times) {
  std::nth_element(times.begin(), times.begin() + long(times.size() / 2), times.end());
  return times[times.size() / 2];
}
} // namespace

/// Samples of at least 50 microseconds, so that the clock counts for nothing.
double Figures::own(const Figure &figure, double budget) {
  figure.call();
  double start = secondsNow();
  figure.call();
  const double once = std::max(secondsNow() - start, 1e-9);
  const int calls = std::clamp(static_cast<int>(50e-6 / once), 1, 10000);
  std::vector<double> times;
  barrier(t, t.world());
  const double begin = secondsNow();
  do {
    start = secondsNow();
    for (int i = 0; i < calls; ++i)
      figure.call();
    times.push_back((secondsNow() - start) / calls);
  } while (secondsNow() - begin < budget || times.size() < 3);
  double time = median(times);
  all_reduce(t, t.world(), &time, 1, Max); // a step is as fast as its slowest rank
  return time / figure.times;
}

/// Begins at one moment of the clock that the ranks of a machine share; has lasted when the last rank is through.
double Figures::shared(const Figure &figure, double budget) {
  const bool crowded = t.size() > static_cast<int>(std::thread::hardware_concurrency());
  double once = 0;
  for (int i = 0; i < 2; ++i) {
    const double begin = secondsNow();
    figure.call();
    once = secondsNow() - begin;
    all_reduce(t, t.world(), &once, 1, Max);
  }
  const int calls = std::clamp(static_cast<int>(budget / (once + 20e-6)), 3, 201);
  std::vector<double> times;
  for (int i = 0; i < calls; ++i) {
    double begin = secondsNow() + (crowded ? 200e-6 : 10e-6);
    all_reduce(t, t.world(), &begin, 1, Max);
    while (secondsNow() < begin)
      if (crowded)
        sched_yield();
    figure.call();
    times.push_back(secondsNow() - begin);
  }
  all_reduce(t, t.world(), times.data(), calls, Max);
  return median(times);
}

void Figures::measure(double seconds, int rounds) {
  if (all.empty())
    return;
  const double budget = seconds / rounds / double(all.size());
  for (int round = 0; round < rounds; ++round)
    for (const Figure &figure : all) {
      const double time = figure.isShared ? shared(figure, budget) : own(figure, budget);
      if (t.rank() == 0)
        std::printf("%s %.4e\n", figure.name.c_str(), time);
    }
  std::fflush(stdout);
}

int calibrate(int argc, char **argv) {
  LaunchOptions options;
  options.deadlineSeconds = 60;
  double seconds = 20;
  bool few = false;
  std::string what = "kernels,memory,collectives";
  for (int i = 1; i + 1 < argc; i += 2) {
    const std::string name = argv[i], value = argv[i + 1];
    if (name == "--ranks")
      options.ranks = std::atoi(value.c_str());
    else if (name == "--transport")
      options.transport = value;
    else if (name == "--seconds")
      seconds = std::atof(value.c_str());
    else if (name == "--few")
      few = value != "0";
    else if (name == "--what")
      what = "," + value + ",";
  }
  if (what.front() != ',')
    what = "," + what + ",";
  options.sharedBytesPerRank = size_t(260) << 20;
  const auto wants = [&](const char *part) { return what.find(std::string(",") + part + ",") != std::string::npos; };
  return launch(options, [&](Transport &t) {
    Buffers buffers;
    Figures figures(t);
    if (wants("kernels")) {
      double peak = peakFlops() * 1e9;
      all_reduce(t, t.world(), &peak, 1, Sum);
      if (t.rank() == 0)
        std::printf("peak %.4e\n", peak / t.size()); // flop/s
      addProducts(figures, buffers, few);
      addRowKernels(figures, buffers, few);
      addAttention(figures, buffers, few);
      addConvolutions(figures, buffers, few);
      addImageKernels(figures, buffers);
      addInputs(figures, buffers);
    }
    if (wants("memory"))
      addMemory(figures, buffers, few);
    if (wants("collectives") && t.size() > 1)
      addCollectives(figures, t, few);
    figures.measure(seconds, few ? 2 : 3);
    return 0;
  });
}

} // namespace echelon::runtime
