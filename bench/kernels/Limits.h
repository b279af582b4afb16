// What one core can do, measured beside the kernels, and how both are timed.
#pragma once
#include "runtime/profile/Limits.h"
#include "runtime/transport/OwnMemory.h"
#include <algorithm>
#include <cstdint>
#include <vector>

namespace echelon::bench {

using runtime::peakFlops;

/// The bytes that a kernel must move, as streams: each is read, written, or updated in place. Where its arithmetic
/// takes longer at least, so many seconds.
class Traffic {
public:
  double arithmetic = 0;
  Traffic &atLeast(double seconds) {
    arithmetic = seconds;
    return *this;
  }

  Traffic &read(double bytes) { return add('r', bytes); }
  Traffic &write(double bytes) { return add('w', bytes); }
  Traffic &update(double bytes) { return add('u', bytes); }
  /// Bytes loaded plus bytes stored.
  double bytes() const;

  struct Stream {
    char kind;
    int64_t bytes;
    char *data = nullptr;
  };
  std::vector<Stream> streams;

private:
  Traffic &add(char kind, double bytes) {
    streams.push_back({kind, static_cast<int64_t>(bytes)});
    return *this;
  }
};

/// The limit of what moves memory: a loop that only loads and stores the same streams, with ordinary stores.
class StreamLoop {
public:
  explicit StreamLoop(const Traffic &traffic);
  void operator()();

private:
  runtime::OwnMemory memory;
  Traffic traffic;
};

/// Seconds of the core for so many exponentials, as kernels take them (detail::exp_down), from register to register and
/// nothing else.
double secondsOfExponentials(double count);

/// Samples of one function, each of about 50 microseconds or one call; the fastest counts. On the wall's clock, to
/// which other work only ever adds (a thread's own clock goes back where the machine is a guest and was held up).
template <typename F> class Samples {
  F &f;
  int calls = 1;

public:
  double best = 1e30;
  explicit Samples(F &f) : f(f) {
    f();
    sample();
    calls = std::clamp(static_cast<int>(50e-6 / best), 1, 10000);
    best = 1e30;
  }
  double sample() {
    double start = runtime::secondsNow();
    for (int i = 0; i < calls; ++i)
      f();
    double t = (runtime::secondsNow() - start) / calls;
    best = std::min(best, t);
    return t * calls;
  }
};

/// Seconds that f takes, at its fastest over about `budget` seconds and at least three samples.
template <typename F> double fastest(F f, double budget = 0.05) {
  Samples<F> samples(f);
  double spent = 0;
  for (int n = 0; n < 3 || spent < budget; ++n)
    spent += samples.sample();
  return samples.best;
}

struct Pair {
  double kernel, limit;
};
/// Both, in turns, so that what disturbs one disturbs the other.
template <typename F, typename G> Pair inTurns(F f, G g, double budget = 0.1) {
  Samples<F> ours(f);
  Samples<G> theirs(g);
  double spent = 0;
  for (int n = 0; n < 4 || spent < budget; ++n)
    spent += ours.sample() + theirs.sample();
  return {ours.best, theirs.best};
}

} // namespace echelon::bench
