// Closed forms where [Dutta] or the renewal theorem has one; else events, worker by worker, in order of time.
#include "passes/cost/PolicyTimes.h"
#include "runtime/random/Philox.h"
#include <algorithm>
#include <cassert>
#include <cmath>
#include <functional>
#include <limits>
#include <optional>
#include <queue>

using namespace echelon;

namespace {

/// H_n - H_m = 1 / (m + 1) + … + 1 / n.
double harmonicBetween(int64_t m, int64_t n) {
  double sum = 0;
  for (int64_t i = n; i > m; --i)
    sum += 1 / double(i);
  return sum;
}

/// Mini-batches that all workers together finish in a unit of time.
double rate(int64_t workers, const Delays &delays) {
  if (delays.constants.empty())
    return double(workers) / (delays.shift + delays.mean);
  double sum = 0;
  for (double delay : delays.constants)
    sum += 1 / delay;
  return sum;
}

/// E[X_(k:P)], the k-th smallest of one delay of each worker.
double orderStatistic(int64_t k, int64_t workers, const Delays &delays) {
  if (delays.constants.empty())
    return delays.shift + delays.mean * harmonicBetween(workers - k, workers);
  std::vector<double> sorted = delays.constants;
  std::nth_element(sorted.begin(), sorted.begin() + (k - 1), sorted.end());
  return sorted[k - 1];
}

/// When the k-th mini-batch ends, of workers that begin together and go on at once, for constant delays.
double kthEnd(int64_t k, const std::vector<double> &constants) {
  using End = std::pair<double, size_t>; // time, worker
  std::priority_queue<End, std::vector<End>, std::greater<>> ends;
  for (size_t w = 0; w < constants.size(); ++w)
    ends.emplace(constants[w], w);
  for (int64_t i = 1; i < k; ++i) {
    const auto [time, worker] = ends.top();
    ends.pop();
    ends.emplace(time + constants[worker], worker);
  }
  return ends.top().first;
}

/// Nothing: no closed form is known.
std::optional<double> closedForm(SyncPolicy::Kind policy, int64_t k, int64_t workers, const Delays &delays) {
  const bool drawn = delays.constants.empty();
  const bool memoryless = drawn && delays.shift == 0;
  switch (policy) {
  case SyncPolicy::EveryStep:
    return orderStatistic(workers, workers, delays);
  case SyncPolicy::KSync:
    return orderStatistic(k, workers, delays);
  case SyncPolicy::KBatchSync:
    if (!drawn)
      return kthEnd(k, delays.constants);
    if (memoryless || workers == 1)
      return double(k) / rate(workers, delays);
    if (k == 1)
      return orderStatistic(1, workers, delays);
    return std::nullopt;
  case SyncPolicy::KAsync:
    // Workers that go on are as good as new when delays are memoryless; all begin anew when k = P.
    if (memoryless || k == workers)
      return orderStatistic(k, workers, delays);
    if (k == 1)
      return 1 / rate(workers, delays);
    return std::nullopt;
  case SyncPolicy::KBatchAsync:
    return double(k) / rate(workers, delays); // the renewal theorem, for every distribution
  case SyncPolicy::Local:                     // as EveryStep, but for its meetings: not asked for
    break;
  }
  return std::nullopt;
}

/// For all delays, drawn or constant: a worker's turns, from one read to the next, follow one another without a gap, so
/// those of all P workers cover each update P times. A turn covers its gradient's staleness, and one update more where
/// the gradient's own update comes before the next read: for all k gradients in KAsync, for the k-th in KBatchAsync.
/// The staleness of an update's k gradients so sums to P - k, or P - 1.
double meanStaleness(SyncPolicy::Kind policy, int64_t k, int64_t workers) {
  if (policy == SyncPolicy::KAsync)
    return double(workers) / double(k) - 1;
  if (policy == SyncPolicy::KBatchAsync)
    return double(workers - 1) / double(k);
  return 0;
}

/// Draws of an exponential of mean 1 by von Neumann's method, which compares integers and adds: the same on any
/// machine, whatever its logarithm.
class Exponential {
public:
  double draw() {
    for (int whole = 0;; ++whole) {
      const uint32_t first = next();
      // The first descent first >= second >= … is of odd length with probability exp(-first).
      bool odd = true;
      for (uint32_t last = first, word; (word = next()) <= last; last = word)
        odd = !odd;
      if (odd)
        return whole + (double(first) + 0.5) * 0x1p-32;
    }
  }

private:
  uint32_t next() {
    if (used == 4) {
      words = runtime::random_block(key, block++);
      used = 0;
    }
    return words.word[used++];
  }

  const runtime::RandomKey key = {0, runtime::path_hash("sync policy"), 0};
  uint64_t block = 0;
  runtime::PhiloxBlock words = {};
  int used = 4;
};

/// Draws are shift / mean + exponential of mean 1, so that the events only add and compare, which no compiler rounds in
/// two ways; times come out in units of `mean`.
double unit(const Delays &delays) { return delays.constants.empty() ? delays.mean : 1; }

/// KBatchSync of drawn delays.
class BatchSyncEvents {
public:
  BatchSyncEvents(int64_t k, int64_t workers, const Delays &delays)
      : k(k), workers(workers), shift(delays.shift / delays.mean) {}

  /// Time of one update. Of P fresh workers the first ends come in order, the gap before the i-th being an exponential
  /// of mean 1 / (P - i + 1) [Rényi]: k of them at most are drawn.
  double update() {
    std::priority_queue<double, std::vector<double>, std::greater<>> later; // ends of those who went on
    double fresh = shift + random.draw() / double(workers);
    int64_t left = workers - 1; // fresh workers behind this one
    for (int64_t i = 1;; ++i) {
      double now = fresh;
      if (!later.empty() && later.top() < fresh) {
        now = later.top();
        later.pop();
      } else if (left > 0) {
        fresh += random.draw() / double(left--);
      } else {
        fresh = std::numeric_limits<double>::infinity();
      }
      if (i == k)
        return now;
      later.push(now + (shift + random.draw()));
    }
  }

private:
  const int64_t k, workers;
  const double shift;
  Exponential random;
};

/// KAsync: who ends waits for the others of its update.
class AsyncEvents {
public:
  AsyncEvents(int64_t k, int64_t workers, const Delays &delays)
      : delays(delays), shift(delays.shift / unit(delays)), waiting(k) {
    for (int64_t w = 0; w < workers; ++w)
      begin(w);
  }

  /// Time from one update to the next.
  double update() {
    const double last = now;
    for (int64_t &worker : waiting) {
      now = ends.top().first;
      worker = ends.top().second;
      ends.pop();
    }
    for (int64_t worker : waiting)
      begin(worker);
    return now - last;
  }

private:
  void begin(int64_t worker) {
    ends.emplace(now + (delays.constants.empty() ? shift + random.draw() : delays.constants[worker]), worker);
  }

  using End = std::pair<double, int64_t>; // time, worker: of ends at one time the lower worker comes first
  const Delays &delays;
  const double shift;
  Exponential random;
  double now = 0;
  std::vector<int64_t> waiting;
  std::priority_queue<End, std::vector<End>, std::greater<>> ends;
};

/// Mean time of an update, by batches of updates long enough to be nearly independent. The first batches are left out:
/// the workers began together. Ends at a standard error of 0.3 %.
template <class Events> double simulate(Events events, int64_t updatesPerBatch) {
  constexpr int64_t kFirstBatches = 8, kLeastBatches = 64;
  auto batch = [&] {
    double time = 0;
    for (int64_t i = 0; i < updatesPerBatch; ++i)
      time += events.update();
    return time / double(updatesPerBatch);
  };
  for (int64_t i = 0; i < kFirstBatches; ++i)
    batch();
  double sum = 0, squares = 0;
  int64_t batches = 0;
  for (int64_t wanted = kLeastBatches;; wanted *= 2) {
    for (; batches < wanted; ++batches) {
      const double time = batch();
      sum += time;
      squares += time * time;
    }
    const double mean = sum / double(batches);
    const double variance = std::max(squares / double(batches) - mean * mean, 0.0);
    if (std::sqrt(variance / double(batches)) <= 0.003 * mean)
      return mean;
  }
}

/// Four turns of the slowest worker, or what many gradients come to first: a worker that is slower still is too rare to
/// count.
int64_t asyncBatch(int64_t k, int64_t workers, const Delays &delays) {
  double slowest = delays.shift + delays.mean;
  for (double delay : delays.constants)
    slowest = std::max(slowest, delay);
  const double gradients = std::min(4 * slowest * rate(workers, delays), std::max(4.0 * double(workers), 8192.0));
  return int64_t(std::ceil(gradients / double(k)));
}

/// P(sum of n exponentials of mean 1 > x): fewer than n events come by x, as Poisson has it; of many, as Gauss has it.
double tailOfSum(int64_t n, double x) {
  constexpr int64_t kMany = 300;
  if (n > kMany)
    return 0.5 * std::erfc((x - double(n)) / std::sqrt(2 * double(n)));
  double term = std::exp(-x), sum = term;
  for (int64_t i = 1; i < n; ++i)
    sum += term *= x / double(i);
  return std::min(sum, 1.0);
}

/// E[max] of the sums of n exponentials of mean 1 of each worker: the integral of P(max > x), by Simpson's rule.
double slowestSum(int64_t n, int64_t workers) {
  constexpr int kPieces = 4000;
  const double wide = 12 * std::sqrt(double(n)), from = std::max(double(n) - wide, 0.0);
  const double to = double(n) + wide + std::log(double(workers)) + 40, piece = (to - from) / kPieces;
  double sum = 0;
  for (int i = 0; i <= kPieces; ++i) {
    const double isLater =
        -std::expm1(double(workers) * std::log1p(-std::min(tailOfSum(n, from + i * piece), 1 - 1e-16)));
    sum += isLater * (i == 0 || i == kPieces ? 1 : i % 2 ? 4 : 2);
  }
  return from + sum * piece / 3;
}

} // namespace

double echelon::expectedLocalTime(int64_t steps, int64_t workers, const Delays &delays) {
  assert(steps >= 1 && workers >= 1 && "each of some workers does something");
  if (!delays.constants.empty())
    return *std::max_element(delays.constants.begin(), delays.constants.end());
  return delays.shift + delays.mean * slowestSum(steps, workers) / double(steps);
}

PolicyTime echelon::expectedTime(SyncPolicy::Kind policy, int64_t k, int64_t workers, const Delays &delays) {
  if (policy == SyncPolicy::EveryStep)
    k = workers;
  assert(workers >= 1 && k >= 1 && "an update needs a worker and a gradient");
  assert((k <= workers || policy == SyncPolicy::KBatchSync || policy == SyncPolicy::KBatchAsync) &&
         "a worker hands in one gradient an update");
  if (delays.constants.empty() && delays.mean == 0)
    return expectedTime(policy, k, workers, Delays::each(std::vector<double>(size_t(workers), delays.shift)));
  assert((delays.constants.empty() || int64_t(delays.constants.size()) == workers) && "a constant of each worker");
  assert(rate(workers, delays) > 0 && std::isfinite(rate(workers, delays)) && "delays are above 0");
  PolicyTime time;
  if (std::optional<double> closed = closedForm(policy, k, workers, delays)) {
    time.update = *closed;
  } else {
    time.exact = false;
    time.update = unit(delays) * (policy == SyncPolicy::KBatchSync
                                      ? simulate(BatchSyncEvents(k, workers, delays), 1)
                                      : simulate(AsyncEvents(k, workers, delays), asyncBatch(k, workers, delays)));
  }
  time.miniBatch = time.update / double(k);
  time.staleness = meanStaleness(policy, k, workers);
  return time;
}
