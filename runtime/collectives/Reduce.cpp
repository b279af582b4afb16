// reduce: the root gets the sum; the buffers of the others stay as they are.
//
//   algorithm    rounds                        bytes sent per rank
//   ring         segments + p - 2              n, neighbour to neighbour, 64 KiB at a time
//   butterfly    2 log2 p (+ 2 unless 2^k)     n (p - 1) / p, then up to n / 2 up a gather tree
//   tree         log2 p                        n
//   one_to_all   1                             n to the root
//   direct       one pass                      reads n; the root's buffer is written once: no messages

#include "runtime/collectives/Plans.h"

namespace echelon::runtime {

// The tree of treeBroadcast, upwards.
void treeReduce(Schedule &s, char *buffer, int64_t count, int root) {
  const int p = s.places(), relative = (s.place() - root + p) % p;
  char *incoming = s.scratch(count);
  for (int bit = 1; bit < p; bit *= 2) {
    if (relative & bit) {
      s.send((relative - bit + root) % p, buffer, count);
      s.nextRound();
      return;
    }
    if (relative + bit < p) {
      s.receive((relative + bit + root) % p, incoming, count);
      s.reduce(buffer, buffer, incoming, count);
      s.nextRound();
    }
  }
}

bool planReduce(Schedule &s, Algorithm algorithm) {
  const int p = s.places(), me = s.place(), root = s.call.root;
  const int64_t count = s.call.count;
  const size_t bytes = s.elementBytes();
  // The sum grows in the root's own buffer, elsewhere in a copy.
  char *buffer = me == root ? s.out() : s.scratch(count);
  s.copy(buffer, s.in(), count);
  s.nextRound();
  switch (algorithm) {
  case Algorithm::ring: {
    // From the place after the root to the root, each adding its own.
    const int distance = (me - root + p - 1) % p; // 0: the first of the chain; p - 1: the root
    const int64_t segment = (64 << 10) / bytes;
    char *incoming = s.scratch(count);
    for (int64_t at = 0; at < count + segment; at += segment) {
      if (distance + 1 < p && at > 0)
        s.send((me + 1) % p, buffer + (at - segment) * bytes, std::min(segment, count - at + segment));
      if (distance > 0 && at < count) {
        const int64_t n = std::min(segment, count - at);
        s.receive((me + p - 1) % p, incoming + at * bytes, n);
        s.reduce(buffer + at * bytes, incoming + at * bytes, buffer + at * bytes, n);
      }
      s.nextRound();
    }
    return true;
  }
  case Algorithm::butterfly: {
    const Parts parts = Parts::even(p, count);
    butterflyReduceScatter(s, buffer, parts);
    treeGather(s, buffer, buffer + parts.begin(me) * bytes, parts, root);
    return true;
  }
  case Algorithm::tree:
    treeReduce(s, buffer, count, root);
    return true;
  case Algorithm::one_to_all:
    if (me == root) {
      for (int from = 0; from < p; ++from)
        if (from != root) {
          char *incoming = s.scratch(count);
          s.receive(from, incoming, count);
          s.reduce(buffer, buffer, incoming, count);
        }
    } else {
      s.send(root, buffer, count);
    }
    return true;
  default:
    return false;
  }
}

} // namespace echelon::runtime
