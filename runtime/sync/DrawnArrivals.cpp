// The workers on a clock that nobody waits for, event by event.
#include "runtime/random/Philox.h"
#include "runtime/sync/Rules.h"

#include <cmath>

namespace echelon::runtime {

double Delay::of(int64_t worker, int64_t ticket, uint64_t seed) const {
  if (kind == Real)
    return 0;
  if (kind == Each)
    return numbers[size_t(worker)];
  const RandomKey key = {seed, path_hash("sync.delay"), uint64_t(ticket)};
  const double u = (double(bits_at(key, 0)) + 0.5) * 0x1p-32; // above 0, below 1
  return kind == Exponential ? -numbers[0] * std::log(u) : numbers[0] - numbers[1] * std::log(u);
}

namespace {

class DrawnArrivals : public Arrivals, Rules {
public:
  DrawnArrivals(const SyncPolicy &p, uint64_t runSeed, int64_t version, const Tickets &from)
      : Rules(p, from), seed(runSeed), met(from), now(from.time) {
    if (policy.isAsync())
      startAll(version);
  }

  Update next(int64_t version) override {
    Update update;
    if (policy.kind == SyncPolicy::Local) { // each its own
      for (int64_t worker = 0; worker < policy.workers; ++worker)
        update.gradients.push_back({worker, stream.next++, version});
      return update;
    }
    startAll(version);
    while (!settle(version, update))
      finish();
    update.time = now;
    return update;
  }

  int64_t readBy(int64_t worker) const override {
    const Worker &w = workers[size_t(worker)];
    return policy.isAsync() && w.state != Worker::Idle ? w.read : -1;
  }

  void meet(int64_t version) override {
    abandonAll();
    met = stream;
    if (policy.isAsync())
      startAll(version);
  }

  Tickets tickets() const override {
    Tickets at = policy.isAsync() ? met : stream;
    at.time = now;
    return at;
  }

private:
  void started(Worker &w) override { w.done = now + policy.delay.of(indexOf(w), w.ticket, seed); }
  /// The clock goes on to the next one who is done.
  void finish() {
    Worker *first = nullptr;
    for (Worker &w : workers)
      if (w.state == Worker::Computes && (!first || w.done < first->done))
        first = &w;
    now = first->done;
    first->state = Worker::Waits;
  }

  uint64_t seed;
  Tickets met; // at the last meeting
  double now;
};

} // namespace

std::unique_ptr<Arrivals> drawnArrivals(const SyncPolicy &policy, uint64_t seed, int64_t version, const Tickets &from) {
  return std::make_unique<DrawnArrivals>(policy, seed, version, from);
}

} // namespace echelon::runtime
