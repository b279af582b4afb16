// Policies, and what they are called in messages.
#pragma once

#include "runtime/sync/Arrivals.h"

#include <string>

namespace echelon::runtime {

constexpr SyncPolicy::Kind kKinds[] = {SyncPolicy::KSync, SyncPolicy::KBatchSync, SyncPolicy::KAsync,
                                       SyncPolicy::KBatchAsync};
inline bool isBatch(SyncPolicy::Kind kind) { return kind == SyncPolicy::KBatchSync || kind == SyncPolicy::KBatchAsync; }

inline SyncPolicy policyOf(SyncPolicy::Kind kind, int64_t k, int64_t workers, int64_t staleness = -1) {
  SyncPolicy policy;
  policy.kind = kind;
  policy.k = k;
  policy.workers = workers;
  policy.staleness = staleness;
  policy.delay = {Delay::Exponential, {1}};
  return policy;
}

/// The least staleness that a policy may have.
inline int64_t leastStaleness(const SyncPolicy &policy) { return (policy.workers + policy.k - 1) / policy.k - 1; }

inline std::string textOf(const SyncPolicy &policy) {
  static const char *const kNames[] = {"every step", "k_sync", "k_batch_sync", "k_async", "k_batch_async"};
  return std::string(kNames[policy.kind]) + "(" + std::to_string(policy.k) +
         ", staleness = " + std::to_string(policy.staleness) + ") of " + std::to_string(policy.workers) + " workers";
}

/// "worker:ticket@read" of each gradient, and the time.
inline std::string textOf(const Update &update) {
  std::string text;
  for (const HandedIn &gradient : update.gradients)
    text += std::to_string(gradient.worker) + ":" + std::to_string(gradient.ticket) + "@" +
            std::to_string(gradient.read) + " ";
  return text + "at " + std::to_string(update.time);
}

/// All policies of up to `workers` workers: without a limit, with the least staleness, and with one and two more.
template <typename Check> void forAllPolicies(int64_t workers, Check check) {
  for (const SyncPolicy::Kind kind : kKinds)
    for (int64_t p = 1; p <= workers; ++p)
      for (int64_t k = 1; k <= (isBatch(kind) ? p + 2 : p); ++k) {
        check(policyOf(kind, k, p));
        if (policyOf(kind, k, p).isAsync())
          for (int64_t more = 0; more <= 2; ++more)
            check(policyOf(kind, k, p, leastStaleness(policyOf(kind, k, p)) + more));
      }
}

} // namespace echelon::runtime
