// Times of collectives between ranks, taken the same way for every library.
//
// All ranks begin at one moment of the machine's clock, and a call has lasted when the last of them is through. The
// same buffers serve call after call: what fits into the cache is there.
#pragma once

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <cstdlib>
#include <functional>
#include <sched.h>
#include <string>
#include <thread>
#include <vector>

namespace echelon::bench {

inline constexpr int64_t kLargest = int64_t(64) << 20;
/// The bytes of the whole buffer: what each rank holds before or after. Rows of collectives that have a row a rank
/// are this by the number of ranks.
inline std::vector<int64_t> allSizes() {
  std::vector<int64_t> all;
  for (int64_t bytes = 1 << 10; bytes <= kLargest; bytes *= 4)
    all.push_back(bytes);
  return all;
}

/// What the command line asks for: [BYTES,...] [COLLECTIVE...], all unless told.
struct Wanted {
  std::vector<int64_t> sizes;
  std::vector<std::string> names;

  Wanted(int first, int argc, char **argv) {
    if (first < argc && std::atoll(argv[first]) > 0) {
      char *at = argv[first++];
      do
        sizes.push_back(std::min<int64_t>(kLargest, std::strtoll(at, &at, 10)));
      while (*at++ == ',');
    } else {
      sizes = allSizes();
    }
    if (first < argc)
      names.assign(argv + first, argv + argc);
  }
  bool has(const std::string &name) const {
    return names.empty() || std::find(names.begin(), names.end(), name) != names.end();
  }
};

/// How the ranks agree on something, in the library that is measured.
struct Peers {
  int rank = 0, size = 1;
  std::function<void(double *values, int count)> maximum; // over the ranks, on all of them
};

inline double now() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

/// Microseconds of a call: the median.
inline double microseconds(const Peers &peers, const std::function<void()> &call) {
  const double kBudget = peers.size > 2 ? 0.03 : 0.06; // seconds
  const bool crowded = peers.size > static_cast<int>(std::thread::hardware_concurrency());
  std::vector<double> times;
  double once = 0;
  for (int i = 0; i < 3; ++i) { // the first touches pages and opens connections
    const double begin = now();
    call();
    once = now() - begin;
    peers.maximum(&once, 1);
  }
  const int calls = std::clamp(static_cast<int>(kBudget / once), 5, 301);
  for (int i = 0; i < calls; ++i) {
    double begin = now() + (crowded ? 200e-6 : 10e-6);
    peers.maximum(&begin, 1);
    while (now() < begin)
      if (crowded)
        sched_yield();
    call();
    times.push_back((now() - begin) * 1e6);
  }
  peers.maximum(times.data(), calls);
  std::nth_element(times.begin(), times.begin() + calls / 2, times.end());
  return times[calls / 2];
}

} // namespace echelon::bench
