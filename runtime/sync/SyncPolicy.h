// Which gradients make an update, and which parameters they are computed at: what a program says of its sync policy.
// Source: Dutta, Joshi, Ghosh, Dube, Nagpurkar, "Slow and stale gradients can win the race", AISTATS 2018.
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

namespace echelon::runtime {

/// How long a worker takes for a mini-batch, in units of a clock that nobody waits for.
struct Delay {
  enum Kind {
    Real,        // it takes what it takes
    Exponential, // numbers: the mean
    Shifted,     // numbers: the least, and the mean of what an exponential one adds
    Each         // numbers: one a worker
  } kind = Real;
  std::vector<double> numbers = {};

  /// Of a ticket, drawn by (seed, ticket).
  double of(int64_t worker, int64_t ticket, uint64_t seed) const;
};

struct SyncPolicy {
  enum Kind {
    EveryStep,  // one gradient, that of the whole batch
    KSync,      // all start at the newest parameters; the k that finish first are in, the others stop
    KBatchSync, // who finishes takes more samples, at the same parameters; the first k gradients are in
    KAsync, // who finishes waits until there are k, and goes on at the newest parameters; the others go on as they are
    Local,  // each trains by itself; after every `every` steps all go on with the same
    KBatchAsync // who finishes goes on at the newest parameters at once; each k gradients make an update
  } kind = EveryStep;
  int64_t k = 1, workers = 1;
  int64_t staleness = -1; // most updates between a gradient's read and its application; -1: no limit
  bool damps = false;     // a gradient counts 1 / max(1, its staleness)
  Delay delay;
  std::vector<int> meshAxes; // whose coordinates workers are, outermost first; none: one rank works for all of them
  int64_t every = 0;         // Local: steps from one meeting to the next
  struct {
    int64_t offset = 0, bytes = 0;
  } own; // in the state arena, on one rank that works for several: what each of these has for itself
  struct Row {
    int64_t place, row, bytes;
  };
  /// Of that, what snapshots hold: a tensor at `place` in the state arena, and those of all workers, one after the
  /// other, at `row`.
  std::vector<Row> rows = {};

  explicit operator bool() const { return kind != EveryStep; }
  /// Whether workers arrive in real time.
  bool isLive() const { return kind != EveryStep && kind != Local && delay.kind == Delay::Real; }
  bool isAsync() const { return kind == KAsync || kind == KBatchAsync; }
  /// Whether one worker may have several gradients in an update.
  bool isBatch() const { return kind == KBatchSync || kind == KBatchAsync; }
};

/// As the language and run.sync call a policy, and as this program does.
struct PolicyName {
  SyncPolicy::Kind kind;
  const char *name, *enumerator;
};
constexpr PolicyName kPolicyNames[] = {{SyncPolicy::KSync, "k_sync", "KSync"},
                                       {SyncPolicy::KBatchSync, "k_batch_sync", "KBatchSync"},
                                       {SyncPolicy::KAsync, "k_async", "KAsync"},
                                       {SyncPolicy::KBatchAsync, "k_batch_async", "KBatchAsync"},
                                       {SyncPolicy::Local, "local", "Local"}};
/// Null: there is none of this name.
inline const PolicyName *policyNamed(std::string_view name) {
  for (const PolicyName &row : kPolicyNames)
    if (row.name == name)
      return &row;
  return nullptr;
}

} // namespace echelon::runtime
