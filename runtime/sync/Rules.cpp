#include "runtime/sync/Rules.h"

#include <algorithm>

namespace echelon::runtime {

void Rules::start(Worker &w, int64_t version) {
  w.ticket = stream.again.empty() ? stream.next++ : stream.again.front();
  if (!stream.again.empty())
    stream.again.erase(stream.again.begin());
  w.read = version;
  w.state = Worker::Computes;
  started(w);
}

void Rules::startAll(int64_t version) {
  for (Worker &w : workers)
    if (!policy.isAsync() || w.state == Worker::Idle)
      start(w, version);
}

void Rules::abandonAll() {
  if (!policy.isAsync())
    return;
  for (Worker &w : workers)
    if (w.state != Worker::Idle) {
      stream.again.push_back(w.ticket);
      w.state = Worker::Idle;
    }
  std::sort(stream.again.begin(), stream.again.end());
}

void Rules::put(Worker &w, Update &update) {
  update.gradients.push_back({indexOf(w), w.ticket, w.read});
  w.state = Worker::Idle;
}

/// Whether all gradients under way, those of `leftOut` apart, can still be applied in time, where `taken` of update
/// `version` are in: sorted by what they read, the j-th comes into update version + (taken + j) / k.
bool Rules::isInTime(int64_t version, int64_t taken, const std::vector<Worker *> &leftOut, bool oneMore) const {
  if (policy.staleness < 0)
    return true;
  std::vector<int64_t> reads;
  for (const Worker &w : workers)
    if (w.state != Worker::Idle && std::find(leftOut.begin(), leftOut.end(), &w) == leftOut.end())
      reads.push_back(w.read);
  if (oneMore)
    reads.push_back(version);
  std::sort(reads.begin(), reads.end());
  for (size_t j = 0; j < reads.size(); ++j)
    if (version + (taken + int64_t(j)) / policy.k > reads[j] + policy.staleness)
      return false;
  return true;
}

/// Oldest read first.
std::vector<Rules::Worker *> Rules::waiting() {
  std::vector<Worker *> list;
  for (Worker &w : workers)
    if (w.state == Worker::Waits)
      list.push_back(&w);
  std::sort(list.begin(), list.end(),
            [](const Worker *a, const Worker *b) { return a->read < b->read || (a->read == b->read && a < b); });
  return list;
}

static constexpr auto isEarlier = [](const auto *a, const auto *b) {
  return a->done < b->done || (a->done == b->done && a < b);
};

bool Rules::settle(int64_t version, Update &update) {
  switch (policy.kind) {
  case SyncPolicy::KAsync:
    return settleWaiting(version, update);
  case SyncPolicy::KBatchAsync:
    return settleBatch(version, update);
  default:
    return settleInStep(version, update);
  }
}

/// Who arrives is in; in the batch form it goes on at the same parameters.
bool Rules::settleInStep(int64_t version, Update &update) {
  std::vector<Worker *> list = waiting();
  std::sort(list.begin(), list.end(), isEarlier);
  for (Worker *w : list) {
    put(*w, update);
    if (int64_t(update.gradients.size()) == policy.k)
      return true;
    if (policy.kind == SyncPolicy::KBatchSync)
      start(*w, version);
  }
  return false;
}

/// k of those who wait, the oldest, as soon as all others stay in time.
bool Rules::settleWaiting(int64_t version, Update &update) {
  std::vector<Worker *> list = waiting();
  if (int64_t(list.size()) < policy.k)
    return false;
  list.resize(size_t(policy.k));
  if (!isInTime(version, policy.k, list))
    return false;
  std::sort(list.begin(), list.end(), isEarlier);
  for (Worker *w : list)
    put(*w, update);
  return true;
}

/// Who arrives is in, and goes on; who would let others come too late waits, and so does who cannot go on in time.
bool Rules::settleBatch(int64_t version, Update &update) {
  for (;;) {
    bool isTaken = false;
    for (Worker *w : waiting()) {
      const int64_t taken = int64_t(update.gradients.size()) + 1;
      if (!isInTime(version, taken, {w}))
        continue;
      put(*w, update);
      if (taken == policy.k)
        return true;
      if (isInTime(version, taken, {}, /*oneMore=*/true))
        start(*w, version);
      isTaken = true;
      break;
    }
    if (!isTaken)
      return false;
  }
}

} // namespace echelon::runtime
