// broadcast: everyone gets the root's buffer.
//
//   algorithm    rounds                        bytes sent per rank
//   ring         segments + p - 2              n, neighbour to neighbour, 64 KiB at a time
//   butterfly    2 log2 p (+ 2 unless 2^k)     n / 2 down a scatter tree, then n (p - 1) / p
//   tree         log2 p                        up to n log2 p (the root)
//   one_to_all   1                             n (p - 1) from the root
//   direct       one pass                      reads n, writes n: no messages

#include "runtime/collectives/Plans.h"

namespace echelon::runtime {

// Places are counted from the root. A place with lowest set bit b hears from the one without that bit, then tells those
// with a lower one.
void treeBroadcast(Schedule &s, char *buffer, int64_t count, int root) {
  const int p = s.places(), relative = (s.place() - root + p) % p;
  int bit = 1;
  for (; bit < p; bit *= 2)
    if (relative & bit) {
      s.receive((relative - bit + root) % p, buffer, count);
      s.nextRound();
      break;
    }
  for (bit /= 2; bit >= 1; bit /= 2)
    if (relative + bit < p) {
      s.send((relative + bit + root) % p, buffer, count);
      s.nextRound();
    }
}

bool planBroadcast(Schedule &s, Algorithm algorithm) {
  const int p = s.places(), me = s.place(), root = s.call.root, relative = (me - root + p) % p;
  const int64_t count = s.call.count;
  const size_t bytes = s.elementBytes();
  char *buffer = s.out();
  switch (algorithm) {
  case Algorithm::ring: {
    const int64_t segment = (64 << 10) / bytes;
    for (int64_t at = 0; at < count + segment; at += segment) {
      // This round hands on what came in the last one.
      if (relative + 1 < p && at > 0)
        s.send((me + 1) % p, buffer + (at - segment) * bytes, std::min(segment, count - at + segment));
      if (relative > 0 && at < count)
        s.receive((me + p - 1) % p, buffer + at * bytes, std::min(segment, count - at));
      s.nextRound();
    }
    return true;
  }
  case Algorithm::butterfly: {
    const Parts parts = Parts::even(p, count);
    treeScatter(s, buffer, buffer + parts.begin(me) * bytes, parts, root);
    butterflyAllGather(s, buffer, parts);
    return true;
  }
  case Algorithm::tree:
    treeBroadcast(s, buffer, count, root);
    return true;
  case Algorithm::one_to_all:
    if (me == root) {
      for (int to = 0; to < p; ++to)
        if (to != root)
          s.send(to, buffer, count);
    } else {
      s.receive(root, buffer, count);
    }
    return true;
  default:
    return false;
  }
}

} // namespace echelon::runtime
